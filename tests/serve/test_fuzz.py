"""Thousands of requests made from the OpenAPI document, valid and not: the server keeps to it and never fails."""

import json

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
# How many valid and invalid ones of each: bodies made from a schema of whole images take a tenth of a second each, so most of
# the default run's are made by hand below, and the slow run makes the rest.
COUNTS = {
    ("/v1/predict", "POST"): (1, 25),
    ("/v1/reconstruct", "POST"): (8, 60),
    ("/v1/samples", "GET"): (60, 60),
    ("/v1/model", "GET"): (20, 0),
    ("/healthz", "GET"): (20, 0),
    ("/readyz", "GET"): (20, 0),
}
BODIES = 1800
SLOW = 30


@pytest.fixture(scope="module")
def fuzzed(serve, small):
    with serve({"main": small}) as server, requests.Session() as session:
        session.trust_env = False
        yield server, session


def bounded(examples):
    slow = [
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.filter_too_much,
        HealthCheck.large_base_example,
    ]
    return settings(
        max_examples=examples, deadline=None, suppress_health_check=slow, derandomize=True, database=None
    )


def test_the_document_has_every_route(fuzzed):
    server, session = fuzzed
    document = session.get(f"{server.url}openapi.json").json()
    described = {(path, method.upper()) for path, item in document["paths"].items() for method in item}
    assert described == set(COUNTS)


@pytest.mark.parametrize(("path", "method"), COUNTS, ids=lambda value: value.strip("/"))
@pytest.mark.parametrize("mode", list(GenerationMode))
@pytest.mark.parametrize("times", [1, pytest.param(SLOW, marks=pytest.mark.slow)])
def test_requests_from_the_document_are_answered_as_it_says(fuzzed, path, method, mode, times):
    server, session = fuzzed
    examples = times * COUNTS[path, method][mode is GenerationMode.NEGATIVE]
    if not examples:
        pytest.skip("Nothing can be wrong about a request without parameters.")
    schema = schemathesis.openapi.from_dict(session.get(f"{server.url}openapi.json").json())

    @bounded(examples)
    @given(schema[path][method].as_strategy(mode))
    def check(case):
        case.validate_response(case.call(base_url=server.url.rstrip("/"), session=session), checks=CHECKS)

    check()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["images", "poses", "classes"]), inner)
    ),
    max_leaves=20,
)
PARTS = st.lists(
    st.tuples(
        st.sampled_from(["file", "other", "", '"']),
        st.binary(max_size=40) | st.sampled_from([b"\x89PNG\r\n\x1a\n", b"GIF89a"]),
    ),
    max_size=3,
)


def form(parts):
    lines = b"".join(
        b'--b\r\nContent-Disposition: form-data; name="%s"; filename="x"\r\n\r\n%s\r\n'
        % (name.encode(), content)
        for name, content in parts
    )
    return lines + b"--b--\r\n"


VALID = {
    "predict": {"images": [[[0] * 19] * 19] * 2},
    "reconstruct": {"poses": [[[0.1] * 16] * 3] * 2, "classes": [0, "2"]},
}


@st.composite
def almost_valid(draw):
    """A valid body with something odd at one place."""
    body = json.loads(json.dumps(VALID[draw(st.sampled_from(sorted(VALID)))]))
    where, key = body, draw(st.sampled_from(sorted(body)))
    while isinstance(where[key], list) and draw(st.integers(0, 3)):
        where, key = where[key], draw(st.integers(0, len(where[key]) - 1))
    where[key] = draw(JSON)
    return json.dumps(body).encode()


BODY = st.one_of(
    st.tuples(st.just("application/json"), almost_valid()),
    st.tuples(st.just("application/json"), JSON.map(lambda value: json.dumps(value).encode())),
    st.tuples(st.just("application/json"), st.binary(max_size=60)),
    st.tuples(st.just("multipart/form-data; boundary=b"), PARTS.map(form)),
    st.tuples(st.just("multipart/form-data; boundary=b"), st.binary(max_size=60)),
    st.tuples(st.text(st.characters(min_codepoint=33, max_codepoint=126)), st.binary(max_size=60)),
)


@bounded(BODIES)
@given(path=st.sampled_from(["predict", "reconstruct"]), body=BODY)
def test_any_body_gets_an_answer_or_a_sentence(fuzzed, path, body):
    server, session = fuzzed
    kind, content = body
    answer = session.post(f"{server.url}v1/{path}", data=content, headers={"Content-Type": kind}, timeout=30)
    assert answer.status_code == 200 or (400 <= answer.status_code < 500 and answer.json()["error"])
