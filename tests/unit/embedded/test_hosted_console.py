"""The console as static files, for an API elsewhere."""

import re
from pathlib import Path

import pytest

from perdure.cli import main
from perdure.embedded.hosted_console import Addresses, hosted_files
from perdure.embedded.pages import read_pages
from perdure.errors import ConfigurationError

ADDRESSES = Addresses(api="https://api.example.com/", socket="wss://live.example.com/live")


def page(addresses: Addresses = ADDRESSES) -> str:
    """The page itself."""
    return hosted_files(addresses)["index.html"].decode()


def test_the_page_knows_its_api_and_what_it_may_talk_to() -> None:
    html = page()

    assert '<meta name="perdure:api" content="https://api.example.com">' in html
    assert '<meta name="perdure:socket" content="wss://live.example.com/live">' in html
    assert '<meta name="perdure:stream" content="">' in html
    (policy,) = re.findall(r'<meta http-equiv="content-security-policy" content="([^"]+)">', html)
    assert policy.endswith("connect-src &#x27;self&#x27; https://api.example.com wss://live.example.com")
    assert policy.startswith("default-src &#x27;none&#x27;; script-src &#x27;self&#x27;;")
    assert html.index("http-equiv") < html.index("<link") < html.index("<script")


def test_only_the_development_server_says_that_it_asks_for_no_login() -> None:
    local = read_pages()["/"][0].decode()

    assert "Development server." in local
    assert 'data-exposed="false"' in local
    assert 'data-exposed="true"' in read_pages(host="0.0.0.0")["/"][0].decode()
    assert 'data-exposed="true"' in read_pages(host="192.168.1.7")["/"][0].decode()
    assert 'data-exposed="false"' in read_pages(host="::1")["/"][0].decode()
    assert "Development server." not in page()


def test_every_file_that_the_page_names_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["console", "--out", str(tmp_path / "site"), "--api", "https://api.example.com"]) == 0

    html = (tmp_path / "site" / "index.html").read_text()
    named = re.findall(r'(?:href|src)="(?!#)([^"]+)"', html)
    assert len(named) > 8
    assert [name for name in named if not (tmp_path / "site" / name).is_file()] == []
    assert (tmp_path / "site" / "client" / "reducer.js").is_file()
    written = [file for file in (tmp_path / "site").rglob("*") if file.is_file()]
    assert f"wrote {len(written)} files" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("addresses", "problem"),
    [
        (Addresses(api="api.example.com"), "--api 'api.example.com' must be an address such as https://"),
        (Addresses(api="http://api.example.com"), "would carry tokens unencrypted: use https://"),
        (Addresses(api="https://api.example.com?x=1"), "no query"),
        (Addresses(api="https://a.example; script-src *"), "no query"),
        (Addresses(api="https://api.example.com:high"), "is no address"),
        (Addresses(api="https://api.example.com", socket="https://x.example"), "--socket 'https://x.example' must be"),
    ],
)
def test_an_address_that_the_page_could_not_use_is_refused(addresses: Addresses, problem: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        hosted_files(addresses)

    assert problem in str(refused.value)


def test_an_api_on_this_machine_needs_no_encryption() -> None:
    assert "http://127.0.0.1:8787" in page(Addresses(api="http://127.0.0.1:8787"))


def test_a_folder_that_cant_be_written_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("in the way")

    assert main(["console", "--out", str(tmp_path / "file"), "--api", "https://api.example.com"]) == 2
    assert "can't be written" in capsys.readouterr().err
