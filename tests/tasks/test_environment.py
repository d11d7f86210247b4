"""What of the daemon's environment commands get."""

from __future__ import annotations

from holon.tasks.environment import command_environment


def test_only_what_programs_need_is_passed_on():
    own = {
        "PATH": "/bin",
        "HOME": "/root",
        "LC_ALL": "C.UTF-8",
        "HOLON_CONTROL_TOKEN": "t",
        "ANTHROPIC_API_KEY": "k",
        "OPENAI_API_KEY": "k",
        "AWS_SECRET_ACCESS_KEY": "s",
        "PYTHONPATH": "/x",
        "LD_PRELOAD": "/x.so",
    }
    found = command_environment(own, {"HOLON_RUNTIME": "1", "HOME": "/elsewhere"})
    assert found == {"PATH": "/bin", "HOME": "/elsewhere", "LC_ALL": "C.UTF-8", "HOLON_RUNTIME": "1"}
