"""What the server answers: the same as the library, in the documented form."""

import io
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import capsnet
from capsnet.predict import predict_files
from capsnet.serve.engine import Engine

SEVEN = Path(__file__).parents[2] / "docs" / "seven.png"


@pytest.fixture(scope="module")
def digits():
    return capsnet.data.load_dataset("mnist").test


def png(array) -> bytes:
    file = io.BytesIO()
    Image.fromarray(np.asarray(array, dtype=np.uint8)).save(file, "PNG")
    return file.getvalue()


def close(got, expected):
    assert got["class"] == expected["class"]
    assert got["likely"] == expected["likely"]
    assert got["scores"] == pytest.approx(expected["scores"], abs=1e-5)


def test_a_picture_file_is_answered_as_the_command_line_does(client):
    answer = client.post("/v1/predict", files={"file": SEVEN.read_bytes()})
    assert answer.status_code == 200
    (got,) = answer.json()["predictions"]
    (expected,) = predict_files("efficient_capsnet.mnist", [SEVEN])
    expected.pop("file")
    assert set(got) == set(expected) == {"class", "score", "scores", "likely", "reason"}
    close(got, expected)
    assert got["class"] == "7"


def test_several_files_are_answered_in_their_order(client, digits):
    files = [("file", (f"{n}.png", png(digits.images[n, 0]))) for n in range(5)]
    predictions = client.post("/v1/predict", files=files).json()["predictions"]
    assert [p["class"] for p in predictions] == [str(k) for k in digits.labels[:5].tolist()]


@pytest.mark.parametrize("channels", [False, True])
def test_pixels_are_answered_as_the_model_does(client, digits, channels):
    images = digits.images[:7] if channels else digits.images[:7, 0]
    predictions = client.post("/v1/predict", json={"images": images.tolist()}).json()["predictions"]
    model = capsnet.load("efficient_capsnet.mnist")
    with torch.inference_mode():
        scores = model(digits.images[:7].float() / 256).scores
    got = torch.tensor([list(p["scores"].values()) for p in predictions])
    torch.testing.assert_close(got, scores, atol=1e-5, rtol=0)


def test_a_blank_sheet_is_not_likely_to_be_anything(client):
    (got,) = client.post("/v1/predict", json={"images": [[[0] * 28] * 28]}).json()["predictions"]
    assert got["likely"] is False


def test_poses_coupling_reconstructions_and_input_come_when_asked_for(client, digits):
    query = {"include": "poses,coupling,reconstructions,input", "top": 3}
    body = {"images": digits.images[:2, 0].tolist()}
    predictions = client.post("/v1/predict", params=query, json=body).json()["predictions"]
    model = capsnet.load("efficient_capsnet.mnist")
    with torch.inference_mode():
        output = model(digits.images[:2].float() / 256, coupling=True)
        picture = model.reconstruct(output.poses)
    for n, got in enumerate(predictions):
        torch.testing.assert_close(torch.tensor(got["poses"]), output.poses[n], atol=1e-5, rtol=0)
        torch.testing.assert_close(torch.tensor(got["coupling"]), output.coupling[n], atol=1e-5, rtol=0)
        assert got["input"] == digits.images[n].tolist()
        assert len(got["classes"]) == len(got["reconstructions"]) == 3
        assert got["classes"][0] == got["class"] == got["reconstructions"][0]["class"]
        best = torch.tensor(got["reconstructions"][0]["image"]) / 255
        torch.testing.assert_close(best, picture[n], atol=0.003, rtol=0)


def test_reconstruct_draws_what_predict_drew(client, digits):
    query = {"include": "poses,reconstructions"}
    body = {"images": digits.images[:3, 0].tolist()}
    predictions = client.post("/v1/predict", params=query, json=body).json()["predictions"]
    drawn = [p["reconstructions"][0]["image"] for p in predictions]
    poses, classes = [p["poses"] for p in predictions], [p["class"] for p in predictions]
    alone = [pose[int(k)] for pose, k in zip(poses, classes, strict=True)]
    for request in (
        {"poses": poses, "classes": classes},
        {"poses": poses},
        {"poses": alone, "classes": [int(k) for k in classes]},
    ):
        images = client.post("/v1/reconstruct", json=request).json()["images"]
        assert np.abs(np.array(images) - np.array(drawn)).max() <= 1


def test_the_model_for_two_digits_answers_beside_the_first(client):
    body = {"images": torch.zeros(1, 36, 36).tolist()}
    query = {"model": "pairs", "top": 2, "include": "reconstructions"}
    (got,) = client.post("/v1/predict", params=query, json=body).json()["predictions"]
    assert len(set(got["classes"])) == 2
    assert np.array(got["reconstructions"][1]["image"]).shape == (1, 36, 36)


def test_a_server_without_that_model_says_so(serve, small):
    with serve({"main": small}) as server, server.client() as client:
        answer = client.post("/v1/predict?model=pairs", json={"images": [[[0]]]})
        assert answer.status_code == 404
        assert "--pairs" in answer.json()["error"]
        assert client.get("/v1/model").json()["pairs"] is None
        assert client.get("/v1/samples").status_code == 404


def test_the_model_says_what_it_takes(client):
    model = client.get("/v1/model").json()
    assert model["name"] == "efficient_capsnet"
    assert model["image_shape"] == [1, 28, 28]
    assert model["class_names"] == list("0123456789")
    assert model["limits"]["images"] == 64
    assert model["pairs"]["image_shape"] == [1, 36, 36]
    assert client.get("/healthz").json() == {"status": "ok"}


def test_samples_are_test_images_of_every_class(client, digits):
    samples = client.get("/v1/samples", params={"count": 20, "seed": 5}).json()["samples"]
    assert [s["class"] for s in samples] == list("0123456789") * 2
    known = {
        bytes(image.flatten().tolist()): k
        for image, k in zip(digits.images, digits.labels.tolist(), strict=True)
    }
    assert all(known[bytes(np.array(s["image"]).flatten().tolist())] == int(s["class"]) for s in samples)


def test_a_network_without_capsules_or_decoder_is_served_too(serve, untrained):
    with serve({"main": untrained("cnn_small", decoder=False)}) as server, server.client() as client:
        query = {"include": "poses,coupling,reconstructions"}
        answer = client.post("/v1/predict", params=query, json={"images": torch.zeros(2, 28, 28).tolist()})
        assert answer.status_code == 200
        assert answer.json()["predictions"][0]["reconstructions"] == []
        refused = client.post("/v1/reconstruct", json={"poses": [[0]]})
        assert refused.status_code == 409


BAD = {
    "not JSON": (b"{", 400, "not JSON"),
    "not text": (b"\xff\xfe", 400, "not JSON"),
    "deep": (b"[" * 100_000, 422, "got array"),
    "deep inside": (b'{"images": ' + b"[" * 100_000, 422, "images[0][0][0]: expected number, got array"),
    "NaN": (b'{"images": [[[NaN]]]}', 400, "not JSON"),
    "a list": (b"[1]", 422, "expected 'object'"),
    "another key": (b'{"pictures": []}', 422, "unknown field 'pictures'"),
    "no images": (b"{}", 422, "required field 'images'"),
    "empty": (b'{"images": []}', 422, "images: expected array of length >= 1"),
    "words": (b'{"images": [[["1"]]]}', 422, "images[0][0][0]: expected number, got text"),
    "a long word": (b'{"images": ["' + b"x" * 900_000 + b'"' + b",1" * 400_000 + b"]}", 422, "got text"),
    "truth": (b'{"images": [[[true, 1]]]}', 422, "got true or false"),
    "ragged": (b'{"images": [[[1, 2], [3]]]}', 422, "images[0][0]: expected array of length >= 28"),
    "too dark": (b'{"images": [[[-1]]]}', 422, "expected number >= 0"),
    "too light": (b'{"images": [[[256]]]}', 422, "expected number <= 255"),
    "not finite": (b'{"images": [[[1e999]]]}', 422, "out of range"),
    "huge": (b'{"images": [[[' + b"9" * 4000 + b"]]]}", 422, "out of range"),
    "too small": (b'{"images": [[[0]]]}', 422, "length >= 28"),
    "too flat": (b'{"images": [0]}', 422, "images[0]: expected array"),
    "a second row": (
        b'{"images": [[' + b",".join([b"[" + b",".join([b"0"] * 28) + b"]"] * 29) + b"]]}",
        422,
        "length <= 28",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_json_gets_a_sentence(client, case):
    body, status, words = BAD[case]
    answer = client.post("/v1/predict", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == status
    assert words in answer.json()["error"]


BAD_POSES = {
    "no classes": ({"poses": [[0.1] * 16]}, "required field 'classes'"),
    "too many classes": ({"poses": [[0.1] * 16], "classes": [1, 2]}, "a list of 1"),
    "an unknown class": ({"poses": [[0.1] * 16], "classes": ["ten"]}, "'ten'"),
    "truth": (
        {"poses": [[0.1] * 16], "classes": [True]},
        "classes[0]: expected whole number or text, got true",
    ),
    "a negative class": ({"poses": [[0.1] * 16], "classes": [-1]}, "classes[0]: expected whole number >= 0"),
    "a wrong size": ({"poses": [[0.1] * 15], "classes": [1]}, "poses[0]: expected array of length >= 16"),
    "too long": ({"poses": [[1e30] * 16], "classes": [1]}, "<= 1000000"),
}


@pytest.mark.parametrize("case", BAD_POSES)
def test_bad_poses_get_a_sentence(client, case):
    body, words = BAD_POSES[case]
    answer = client.post("/v1/reconstruct", json=body)
    assert answer.status_code == 422
    assert words in answer.json()["error"]


def test_bad_forms_queries_types_paths_and_methods_get_a_sentence(client):
    form = "multipart/form-data"
    for answer, status, words in (
        (client.post("/v1/predict", files={"file": b"text"}), 422, "is not a picture"),
        (client.post("/v1/predict", files={"other": SEVEN.read_bytes()}), 422, "named 'file'"),
        (client.post("/v1/predict", files={"x": b"1"}, data={"file": "7"}), 422, "holds text"),
        (client.post("/v1/predict", content=b"x", headers={"Content-Type": form}), 400, "oundary"),
        (
            client.post("/v1/predict", content=b"x", headers={"Content-Type": f"{form}; boundary=b"}),
            400,
            "ultipart",
        ),
        (client.post("/v1/predict", content=b"x"), 415, "application/json"),
        (client.post("/v1/reconstruct", content=b"x"), 415, "application/json"),
        (client.post("/v1/predict?top=11", json={"images": []}), 422, "top: expected whole number <= 10"),
        (client.post("/v1/predict?include=weights", json={"images": []}), 422, "'weights'"),
        (
            client.post("/v1/predict?model=three", json={"images": []}),
            422,
            "model: invalid enum value 'three'",
        ),
        (client.get("/v1/samples?count=41"), 422, "count: expected whole number <= 40"),
        (client.get("/v1/predict"), 405, "GET is not for"),
        (client.get("/nothing"), 404, "There is nothing at /nothing"),
        (client.get("/static/../app.py"), 404, "nothing"),
        (client.get("/static/%2e%2e/app.py"), 404, "nothing"),
    ):
        assert answer.status_code == status, answer.text
        assert words in answer.json()["error"]


def test_weights_without_preprocessing_cannot_be_served(tmp_path):
    capsnet.save(capsnet.create_model("efficient_capsnet"), tmp_path / "w")
    with pytest.raises(capsnet.CapsNetError, match="don't say how a picture is prepared"):
        Engine(str(tmp_path / "w"))


def test_a_bug_is_answered_without_its_traceback(serve, small, monkeypatch, caplog):
    def fail(questions):
        raise RuntimeError("secret")

    with serve({"main": small}) as server, server.client() as client:
        service = server.service
        monkeypatch.setattr(service.predictions["main"], "_run", fail)
        answer = client.post("/v1/predict", json={"images": torch.zeros(1, 19, 19).tolist()})
        assert answer.status_code == 500
        assert "secret" not in answer.text
        assert "secret" in caplog.text
        assert client.get("/healthz").status_code == 200
