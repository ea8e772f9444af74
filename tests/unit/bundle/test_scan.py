from __future__ import annotations

from dataclasses import replace

import pytest

from app.bundle.scan import Suspect, scan
from app.trajectory.episode import Message
from tests.unit.bundle.made_bundles import contents_of_two_pairs


def found_in(text: str) -> list[Suspect]:
    contents = contents_of_two_pairs()
    part = contents.pairs[0]
    last = part.pair.cached.requests[-1]
    asked = replace(last, prompt=replace(last.prompt, added=(Message("user", text),)))
    run = replace(part.pair.cached, requests=(*part.pair.cached.requests[:-1], asked))
    return scan(replace(contents, pairs=(replace(part, pair=replace(part.pair, cached=run)),)))


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("use sk-proj-abcdefghijklmnop1234", "an API key"),
        ("hf_abcdefghijklmnopqrst", "an API key"),
        ("AKIAIOSFODNN7EXAMPLE", "an API key"),
        ("-----BEGIN RSA PRIVATE KEY-----", "a private key"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3", "an access token (JWT)"),
        ("d41d8cd98f00b204e9800998ecf8427e", "a long hexadecimal string"),
        ("Zm9yIGEgd2hpbGUgdGhlcmUgd2FzIG5vdGhpbmcgdG8gc2Vl0Q==", "a long random string"),
        ("write to anna.b@example.org today", "an e-mail address"),
        ("connect to build7.lab.internal now", "a host name"),
        ("https://wiki.example.org/page", "a host name"),
        ("from 192.168.4.20 and", "an IP address"),
        ("from 2001:db8:0:0:0:ff00:42:8329", "an IP address"),
        ("call +49 30 901820 11", "a telephone number"),
    ],
)
def test_what_looks_like_a_key_or_an_address_is_told_with_its_part_and_line(text: str, what: str) -> None:
    found = [suspect for suspect in found_in(text) if suspect.what == what]
    assert [(suspect.part, suspect.line) for suspect in found] == [("pairs/01-made-00/cached.jsonl", 4)]
    assert found[0].excerpt in text
    assert found[0].sentence.startswith("pairs/01-made-00/cached.jsonl, line 4: this looks like")


@pytest.mark.parametrize(
    "text",
    ["127.0.0.1 and 0.0.0.0", "version 0.25.3", "version 1.2.3.4.5", "999.1.1.1", "at 10:30:00", "the risk-averse",
     "a::b", "1234567890", "an-identifier-with-many-words-but-no-digits-in-it", "+3 degrees", "Model.Q4_1.gguf",
     "http://127.0.0.1:8080/v1", '"skip_special_tokens": false',
     '"cache_salt": "forkpoint-3ae9ea7f62dd4889bbe8ef00a55d4a62-1"'],
)  # fmt: skip
def test_ordinary_text_is_not_told(text: str) -> None:
    assert found_in(text) == []


def test_notes_logs_answers_and_the_record_are_looked_at_and_a_models_hash_is_known() -> None:
    contents = contents_of_two_pairs()
    assert scan(contents) == []
    part = replace(contents.pairs[1], note="ask\nanna@example.org", log_excerpt="a\nb\n10.0.0.7 said")
    made = replace(contents, pairs=(contents.pairs[0], part), answers={"link": "https://models.example.org/m"})
    assert [(s.part, s.line, s.excerpt) for s in scan(made)] == [
        ("manifest.json", 1, "models.example.org"),
        ("pairs/02-made-01/note.txt", 2, "anna@example.org"),
        ("pairs/02-made-01/log.txt", 3, "10.0.0.7"),
    ]


def test_what_repeats_is_told_once_a_part_and_shown_inert() -> None:
    found = found_in("anna@example.org anna@example.org \u202eanna@example.org")
    assert len(found) == 1
    assert "\u202e" not in found[0].excerpt
