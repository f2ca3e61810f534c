"""What texts are linted with: the files of the project, and the settings of the client."""

from __future__ import annotations

import os
import time

import pytest

ZENFLOW = '{"train_batch_size": 8, "zero_optimization": {"stage": 2, "zenflow": {"topk_ratio": 0.1}}}'  # since 0.17.3


@pytest.fixture
def codes(client):
    def codes(name="ds_config.json"):
        return {one["code"] for one in client.diagnostics(name)}

    return codes


def touch(client, text=ZENFLOW):
    client.change("ds_config.json", text)


def test_pins_are_read_again_when_they_change(client, codes, tmp_path):
    client.open("ds_config.json", ZENFLOW)
    assert "DS109" not in codes()
    (tmp_path / "requirements.txt").write_text("deepspeed==0.16.9\n")
    touch(client)
    assert "DS109" in codes()
    (tmp_path / "requirements.txt").write_text("deepspeed==0.18.9\n")
    touch(client)
    assert "DS109" not in codes()


def test_what_is_included_and_what_is_installed_count_too(client, tmp_path):
    (tmp_path / "requirements.txt").write_text("-r pins/base.txt\n")
    (tmp_path / "pins").mkdir()
    (tmp_path / "pins" / "base.txt").write_text("deepspeed==0.16.9\n")
    client.open("ds_config.json", ZENFLOW)
    assert version(client) == "0.16.9"
    (tmp_path / "pins" / "base.txt").write_text("deepspeed==0.15.4\n")
    touch(client)
    assert version(client) == "0.15.4"


def version(client):
    return client.request("ds-lint/target", uri=client.uri("ds_config.json"))["target"]["deepspeed"]["version"]


def test_settings_are_read_again_when_a_client_tells_of_them(start, tmp_path):
    watching = {"workspace": {"didChangeWatchedFiles": {"dynamicRegistration": True}}}
    client = start().initialize(capabilities=watching)
    client.open("ds_config.json", '{"gradient_cliping": 1}')
    assert "DS101" in {one["code"] for one in client.diagnostics("ds_config.json")}
    (registration,) = client.asked[0]["params"]["registrations"]
    patterns = {one["globPattern"] for one in registration["registerOptions"]["watchers"]}
    assert {"**/ds-lint.toml", "**/pyproject.toml", "**/uv.lock", "**/environment.yml"} <= patterns
    (tmp_path / "ds-lint.toml").write_text('ignore = ["unknown-key"]\n')
    client.notify("workspace/didChangeWatchedFiles", changes=[{"uri": client.uri("ds-lint.toml"), "type": 1}])
    assert "DS101" not in {one["code"] for one in client.diagnostics("ds_config.json")}


def test_broken_settings_are_told_once_and_the_last_good_ones_go_on(client, codes, tmp_path):
    settings = tmp_path / "ds-lint.toml"
    settings.write_text('ignore = ["unknown-key"]\n')
    client.open("ds_config.json", '{"gradient_cliping": 1}')
    assert "DS101" not in codes()
    settings.write_text('ignore = ["unknown-ke"]\n')
    for text in ('{"gradient_cliping": 2}', '{"gradient_cliping": 3}'):
        touch(client, text)
        assert "DS101" not in codes()
    (message,) = client.shown()
    assert "unknown rule unknown-ke" in message
    settings.write_text("")
    touch(client)
    touch(client, '{"gradient_cliping": 4}')
    assert "DS101" in codes()


def test_settings_that_were_never_good_are_left_out(client, codes, tmp_path):
    (tmp_path / "ds-lint.toml").write_text("stack = 1\n")
    client.open("ds_config.json", '{"gradient_cliping": 1}')
    assert "DS101" in codes()
    assert len(client.shown()) == 1


def test_a_missing_baseline_is_reported_and_nothing_is_suppressed(client, codes, tmp_path):
    (tmp_path / "ds-lint.toml").write_text('baseline = "gone.json"\n')
    client.open("ds_config.json", '{"gradient_cliping": 1}')
    assert "DS101" in codes()
    assert "gone.json" in client.shown()[0]


def test_the_client_may_say_what_the_command_line_may(start):
    options = {"stack": "deepspeed", "deepspeedVersion": "0.16.9", "worldSize": 3, "trainerArgs": "", "gpu": None}
    client = start().initialize(options=options)
    client.open("ds_config.json", '{"train_batch_size": 8, "zero_optimization": {"stage": 1}}')
    assert "DS512" in {one["code"] for one in client.diagnostics("ds_config.json")}
    target = client.request("ds-lint/target", uri=client.uri("ds_config.json"))
    assert target["stack"] == "deepspeed"
    assert target["target"]["deepspeed"] == {
        "version": "0.16.9",
        "oldest": "0.16.9",
        "source": "the settings of the editor",
    }


def test_the_client_is_asked_for_its_settings(start):
    client = start()
    client.requests["workspace/configuration"] = [{"stack": "trainer"}]
    client.initialize(capabilities={"workspace": {"configuration": True}})
    client.open("ds_config.json", '{"train_batch_size": 8}')
    wait_for_stack(client, "trainer")
    client.requests["workspace/configuration"] = [{"stack": "accelerate"}]
    client.notify("workspace/didChangeConfiguration", settings=None)
    wait_for_stack(client, "accelerate")


def wait_for_stack(client, stack):
    until = time.monotonic() + 10
    while client.request("ds-lint/target", uri=client.uri("ds_config.json"))["stack"] != stack:
        assert time.monotonic() < until


def test_a_client_that_cannot_be_asked_sends_its_settings(client):
    client.open("ds_config.json", '{"train_batch_size": 8}')
    client.notify("workspace/didChangeConfiguration", settings={"ds-lint": {"stack": "accelerate"}})
    wait_for_stack(client, "accelerate")


def test_settings_of_the_client_that_cannot_be_used_are_told(start):
    client = start().initialize(options={"stack": "torch", "deepspeedVersion": "99"})
    client.open("ds_config.json", '{"gradient_cliping": 1}')
    assert "DS101" in {one["code"] for one in client.diagnostics("ds_config.json")}
    assert 'ds-lint.stack must be one of deepspeed, trainer, accelerate, not "torch"' in client.shown()[0]


def test_the_target_says_what_a_status_line_shows(start, tmp_path):
    client = start().initialize()
    (tmp_path / "requirements.txt").write_text("deepspeed>=0.16,<0.19\ntransformers==4.57.6\n")
    client.open("ds_config.json", '{"bf16": {"enabled": "auto"}, "zero_optimization": {"stage": 1}, "steps": 1}')
    target = client.request("ds-lint/target", textDocument={"uri": client.uri("ds_config.json")})
    accelerate = target["target"].pop("accelerate")
    assert set(accelerate) == {"version", "oldest", "source"}
    assert target == {
        "uri": client.uri("ds_config.json"),
        "config": True,
        "target": {
            "deepspeed": {"version": "0.18.9", "oldest": "0.16.0", "source": f"{tmp_path}/requirements.txt:1"},
            "transformers": {"version": "4.57.6", "oldest": "4.57.6", "source": f"{tmp_path}/requirements.txt:2"},
        },
        "settings": None,
        "notes": [],
        "stack": None,
        "stacks": ["trainer", "accelerate"],
        "missing": ["world size"],
        "findings": target["findings"],
        "heldBack": {},
    }
    severities = [one["severity"] for one in client.diagnostics("ds_config.json")]
    counts = {"error": severities.count(1), "warning": severities.count(2), "info": severities.count(3)}
    assert target["findings"] == counts


def test_the_server_ends_when_the_process_of_its_client_has_gone(start):
    client = start()
    gone = os.fork()
    if gone == 0:
        os._exit(0)
    os.waitpid(gone, 0)
    client.start_request("initialize", {"processId": gone, "rootUri": None, "capabilities": {}})
    assert client.process.wait(10) == 1


def test_an_extended_file_is_read_again_when_it_changes_or_appears(client, codes, tmp_path):
    (tmp_path / "ds-lint.toml").write_text('extend = "base.toml"\n')
    client.open("ds_config.json", '{"gradient_cliping": 1}')
    assert "DS101" in codes()
    assert "base.toml: No such file or directory" in client.shown()[0]
    (tmp_path / "base.toml").write_text('ignore = ["unknown-key"]\n')
    touch(client, '{"gradient_cliping": 2}')
    assert "DS101" not in codes()
    (tmp_path / "base.toml").write_text('ignore = ["unknown-key"]\npreview = tru\n')
    touch(client, '{"gradient_cliping": 3}')
    assert "DS101" not in codes()
    (tmp_path / "base.toml").write_text("")
    touch(client, '{"gradient_cliping": 4}')
    assert "DS101" in codes()


def test_the_file_of_the_user_counts_and_is_read_again(start, tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    client = start(XDG_CONFIG_HOME=str(home), APPDATA=str(home)).initialize()
    client.open("ds_config.json", '{"gradient_cliping": 1}')
    assert "DS101" in {one["code"] for one in client.diagnostics("ds_config.json")}
    (home / "ds-lint").mkdir()
    (home / "ds-lint" / "ds-lint.toml").write_text('ignore = ["unknown-key"]\n')
    touch(client, '{"gradient_cliping": 2}')
    assert "DS101" not in {one["code"] for one in client.diagnostics("ds_config.json")}
