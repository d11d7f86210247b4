"""What can go wrong with a command before it runs, in words for the model that asked for it."""

from __future__ import annotations

import errno

from holon.core.errors import AgentError, DeveloperError, HolonError
from holon.tasks import birth
from holon.tasks.protocol import Order, Refused


class WorkdirMissing(AgentError):
    code = "workdir_missing"


class WorkdirUnusable(AgentError):
    """It is there, but it is no directory, or this user may not enter it."""

    code = "workdir_unusable"


class ShellMissing(AgentError):
    code = "shell_missing"


class CommandSpawnFailed(AgentError):
    code = "command_spawn_failed"
    status = 500


class InputRefused(AgentError):
    """The command does not take input, or not any more."""

    code = "input_refused"
    status = 409


class CommandUnreachable(AgentError):
    """It runs, but its runner does not answer."""

    code = "command_unreachable"
    status = 503


class FolderTaken(DeveloperError):
    """A folder belongs to one command for ever."""

    code = "command_folder_taken"


def refusal(order: Order, refused: Refused) -> HolonError:
    """The error of a command that its runner could not start."""
    details = {"step": refused.step, "errno": errno.errorcode.get(refused.errno), "workdir": order.cwd}
    match refused.step, refused.errno:
        case (birth.WORKDIR, errno.ENOENT):
            return WorkdirMissing(
                f"the workdir '{order.cwd}' does not exist", hint="create it first, or leave workdir out", **details
            )
        case (birth.WORKDIR, errno.ENOTDIR):
            return WorkdirUnusable(f"the workdir '{order.cwd}' is not a directory", hint="name a directory", **details)
        case (birth.WORKDIR, _):
            return WorkdirUnusable(
                f"the workdir '{order.cwd}' cannot be entered ({refused.detail})",
                hint="choose a directory that this user may enter",
                **details,
            )
        case (birth.FOLDER, errno.ENOTEMPTY | errno.EEXIST):
            return FolderTaken(
                f"'{order.folder}' has or had a command, or other files",
                hint="give every command a folder of its own, that is not there or empty",
            )
        case (birth.FOLDER, _):
            return CommandSpawnFailed(
                f"the command's folder cannot be used: {refused.detail}",
                hint="the operator must free disk space in the home",
                **details,
            )
        case (birth.GROUPS, _) | (birth.EXEC, errno.EAGAIN | errno.ENOMEM):
            return CommandSpawnFailed(
                f"the command could not be started within the limits of this agent's commands ({refused.detail})",
                hint="wait for running commands to end, or stop some: TaskList shows them",
                **details,
            )
        case (birth.EXEC, errno.E2BIG):
            return CommandSpawnFailed(
                "the command line is too long for this machine",
                hint="write the script to a file with ApplyPatch and run the file",
                **details,
            )
        case _:
            return CommandSpawnFailed(
                f"'{order.argv[0]}' could not be started: {refused.detail}",
                hint="check the shell and the limits that the command was given",
                **details,
            )
