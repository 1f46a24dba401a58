"""What those who run the server see: metrics, the access log, and whether it is alive and takes work."""

import io
import json
import time

import pytest
from prometheus_client.parser import text_string_to_metric_families

from capsnet.errors import CapsNetError
from capsnet.serve.limits import Limits
from capsnet.serve.watch import Watch, open_log

BODY = {"images": [[[0] * 19] * 19]}


def metrics(client):
    families = text_string_to_metric_families(client.get("/metrics").text)
    return {(s.name, *s.labels.values()): s.value for family in families for s in family.samples}


def test_requests_are_counted_by_path_and_status(serve, small):
    with serve({"main": small}) as server, server.client() as client:
        for _ in range(3):
            client.post("/v1/predict", json=BODY)
        client.post("/v1/predict", json={})
        client.get("/static/main.js")
        for n in range(5):
            client.request("BREW", f"/made/up/{n}")
        values = metrics(client)
        assert values["capsnet_requests_total", "POST", "/v1/predict", "200"] == 3
        assert values["capsnet_requests_total", "POST", "/v1/predict", "422"] == 1
        assert values["capsnet_requests_total", "GET", "/static", "200"] == 1
        assert values["capsnet_requests_total", "other", "other", "404"] == 5
        assert values["capsnet_request_seconds_count", "/v1/predict"] == 4
        assert values["capsnet_images_total",] == 3
        assert values["capsnet_requests_in_progress",] == 1, "the one that asks"
        assert values["capsnet_connections",] >= 1
        assert not [key for key in values if any("made" in part for part in key)]


def test_the_access_log_has_one_object_per_request(tmp_path, serve, small):
    file = tmp_path / "access.log"
    with serve({"main": small}, watch=Watch(open_log(str(file)))) as server, server.client() as client:
        client.post("/v1/predict?top=2", json=BODY, headers={"Authorization": "Bearer secret"})
        client.get("/a%0Ab")
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [line["status"] for line in lines] == [200, 404]
    assert lines[0]["path"] == "/v1/predict"
    assert lines[0]["client"] == "127.0.0.1"
    assert lines[0]["bytes_in"] > 700
    assert lines[0]["bytes_out"] > 50
    assert lines[1]["path"] == "/a\nb"
    assert "secret" not in file.read_text()


def test_a_log_that_cannot_be_written_ends_and_the_service_goes_on(serve, small, capfd):
    class Full(io.StringIO):
        def write(self, text):
            raise OSError(28, "No space left on device")

    with serve({"main": small}, watch=Watch(Full())) as server, server.client() as client:
        assert client.get("/healthz").status_code == 200
        assert client.get("/healthz").status_code == 200
    assert capfd.readouterr().err.count("The access log has ended: No space left") == 1


def test_a_log_in_no_folder_is_one_sentence(tmp_path):
    with pytest.raises(CapsNetError, match="--access-log"):
        open_log(str(tmp_path / "no" / "log"))
    assert open_log(None) is None


def test_a_stuck_network_is_alive_but_not_ready(serve, small, monkeypatch):
    with serve({"main": small}, Limits(seconds=0.3)) as server, server.client() as client:
        assert client.get("/readyz").json() == {"status": "ok"}
        batcher = server.service.predictions["main"]
        run = batcher._run
        monkeypatch.setattr(batcher, "_run", lambda jobs: time.sleep(1.5) or run(jobs))
        assert client.post("/v1/predict", json=BODY).status_code == 503
        time.sleep(0.2)
        assert client.get("/healthz").status_code == 200
        answer = client.get("/readyz")
        assert answer.status_code == 503
        assert "Retry-After" in answer.headers


def test_in_a_crowd_health_is_still_told(serve, small):
    with serve({"main": small}, Limits(requests=0)) as server, server.client() as client:
        assert client.get("/v1/model").status_code == 503
        assert client.get("/healthz").status_code == 200
        assert client.get("/readyz").status_code == 503


def test_no_more_bytes_are_held_than_allowed(serve, small):
    with serve({"main": small}, Limits(memory=1000)) as server, server.client() as client:
        answer = client.post("/v1/predict", json={"images": [[[0] * 19] * 19] * 4})
        assert answer.status_code == 503
        assert answer.headers["Retry-After"] == "1"
        assert client.post("/v1/reconstruct", json={}).status_code == 422
        assert server.service.watch.held == 0
