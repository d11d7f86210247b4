"""The stage: the scripted model of the crash tests, and tools whose every run is noted outside the store."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

from holon.core.codec import Input
from holon.providers import scripted  # noqa: F401 - what a worker would import, it finds in the nursery
from holon.providers.scripts import parse_script
from holon.tools.registry import CallContext, Tool, ToolOutcome
from tests.crash.outside import Outside

#: The first word of an input says what its turn does.
_RULES = r"""
rules:
  - when: {kind: timer_tick}
    rounds: [{text: noticed, delay_ms: 2}]
  - when: {pattern: '^stamp'}
    rounds:
      - {delay_ms: 4, tools: [{name: Stamp, input: {ms: 4}}]}
      - {delay_ms: 2, text: stamped}
  - when: {pattern: '^many'}
    rounds:
      - text: some of everything
        delay_ms: 5
        tools:
          - {name: Peek, input: {ms: 3}}
          - {name: Peek, input: {ms: 6}}
          - {name: Stamp, input: {ms: 5}}
          - {name: Peek}
          - {name: Stamp, input: {ms: 3}}
      - {delay_ms: 3, tools: [{name: Stamp}]}
      - {delay_ms: 3, text: done}
  - when: {pattern: '^nap'}
    rounds: [{text: a short rest, delay_ms: 2, tools: [{name: Sleep, input: {reason: nap, duration_ms: 40}}]}]
  - when: {pattern: '^long nap'}
    rounds: [{text: a longer rest, tools: [{name: Sleep, input: {reason: long nap, duration_ms: 700}}]}]
  - when: {pattern: '^rest'}
    rounds: [{delay_ms: 2, tools: [{name: Sleep, input: {reason: enough}}]}]
  - when: {pattern: '^follow'}
    rounds:
      - {delay_ms: 3, tools: [{name: Enqueue, input: {text: 'go on after {input}'}}]}
      - {delay_ms: 2, text: it is queued}
  - when: {pattern: '^mixed'}
    rounds:
      - delay_ms: 3
        tools:
          - {name: Stamp, input: {ms: 2}}
          - {name: Enqueue, input: {text: 'go on after {input}', priority: background}}
          - {name: Sleep, input: {reason: mixed, duration_ms: 30}}
      - {delay_ms: 2, text: all asked for}
  - when: {pattern: '^deny'}
    rounds: [{delay_ms: 2, fail: {kind: auth_error, message: the key has expired}}]
  - when: {pattern: '^slow'}
    rounds: [{text: at last, delay_ms: 180}]
  - when: {pattern: '^dawdle'}
    rounds: [{text: never in a hurry, delay_ms: 600}]
  - when: {pattern: '^patient'}
    rounds: [{delay_ms: 150, tools: [{name: Stamp, input: {ms: 150}}]}, {text: done, delay_ms: 150}]
  - when: {pattern: '^very slow'}
    rounds: [{text: at long last, delay_ms: 20000}]
  - when: {pattern: '^stuck then more'}
    rounds: [{tools: [{name: Stamp, input: {ms: 20000}}, {name: Stamp}]}]
  - when: {pattern: '^stuck'}
    rounds: [{tools: [{name: Stamp, input: {ms: 20000}}]}, {text: 'told: {result}'}]
  - when: {kind: task_result}
    rounds: [{text: it is over, delay_ms: 2}]
  - when: {pattern: '^run .*?(?P<tag>#\d+#)'}
    rounds:
      - delay_ms: 2
        tools:
          - {name: ExecCommand, input: {cmd: "echo '{tag} run' >> $OUTSIDE", login: false}}
      - {text: it ran}
  - when: {pattern: '^promote .*?(?P<tag>#\d+#)'}
    rounds:
      - tools:
          - name: ExecCommand
            input: {cmd: "sleep 0.1; echo '{tag} promote' >> $OUTSIDE", login: false, yield_time_ms: 30}
      - {tools: [{name: Newest}]}
      - {tools: [{name: TaskOutput, input: {task_id: '{result}', timeout_ms: 1000}}]}
      - {text: it was waited for}
  - when: {pattern: '^halt for good .*?(?P<tag>#\d+#)'}
    rounds:
      - tools:
          - name: ExecCommand
            input: {cmd: "echo '{tag} halt' >> $OUTSIDE; sleep 60", login: false, yield_time_ms: 30}
      - {tools: [{name: Newest}]}
      - {tools: [{name: TaskStop, input: {task_id: '{result}'}}]}
      - {text: it was stopped}
  - when: {pattern: '^halt .*?(?P<tag>#\d+#)'}
    rounds:
      - tools:
          - name: ExecCommand
            input: {cmd: "echo '{tag} halt' >> $OUTSIDE; sleep 0.3", login: false, yield_time_ms: 30}
      - {tools: [{name: Newest}]}
      - {tools: [{name: TaskStop, input: {task_id: '{result}'}}]}
      - {text: it was stopped}
  - when: {pattern: '^wait for good'}
    rounds: [{tools: [{name: ExecCommand, input: {cmd: sleep 60, login: false}}]}, {text: 'told: {result}'}]
  - when: {pattern: '^family'}
    rounds:
      - {tools: [{name: SpawnAgent, input: {initial_message: 'stamp for {input}'}}]}
      - {tools: [{name: SpawnAgent, input: {initial_message: 'run for {input}'}}]}
      - {text: they work on it}
  - when: {pattern: '^dismiss'}
    rounds:
      - {tools: [{name: SpawnAgent, input: {initial_message: 'linger for {input}'}}]}
      - {tools: [{name: NewestChild}]}
      - {tools: [{name: TaskStop, input: {task_id: '{result}'}}]}
      - {text: it was sent home}
  - when: {pattern: '^apart'}
    rounds:
      - {tools: [{name: SpawnAgent, input: {initial_message: 'scribble for {input}', workspace_mode: worktree}}]}
      - {tools: [{name: SpawnAgent, input: {initial_message: 'stamp for {input}', workspace_mode: worktree}}]}
      - {text: they work apart}
  - when: {pattern: '^isolate (?P<path>\S+)'}
    rounds: [{tools: [{name: UseWorkspace, input: {path: '{path}', mode: isolated}}]}, {text: it is inside}]
  - when: {pattern: '^recall'}
    rounds:
      - {tools: [{name: SpawnAgent, input: {initial_message: 'linger for {input}', workspace_mode: worktree}}]}
      - {tools: [{name: NewestChild}]}
      - {tools: [{name: TaskStop, input: {task_id: '{result}'}}]}
      - {text: it was called back}
  - when: {pattern: '^scribble .*?(?P<tag>#\d+#)'}
    rounds:
      - tools:
          - name: ExecCommand
            input: {cmd: "echo '{tag} scribble' >> $OUTSIDE; echo more >> read.me", login: false}
      - {text: it is written}
  - when: {pattern: '^linger .*?(?P<tag>#\d+#)'}
    rounds:
      - {tools: [{name: ExecCommand, input: {cmd: "echo '{tag} linger' >> $OUTSIDE; sleep 0.3", login: false}}]}
      - {delay_ms: 20, tools: [{name: Stamp}]}
      - {text: long enough}
  - when: {pattern: '^batch .*?(?P<tag>#\d+#)'}
    rounds:
      - delay_ms: 2
        tools:
          - name: ExecCommandBatch
            input:
              items:
                - {cmd: "echo '{tag} batch 1' >> $OUTSIDE", login: false}
                - {cmd: "sleep 0.03; echo '{tag} batch 2' >> $OUTSIDE", login: false}
      - {text: both ran}
  - when: {pattern: '^broken'}
    rounds:
      - {delay_ms: 2, tools: [{name: Break}, {name: NoSuchTool}, {name: Stamp}]}
      - {text: it broke}
  - when: {pattern: '^deadly at once'}
    rounds: [{tools: [{name: Die}, {name: Die}, {name: Die}, {name: Die}]}, {text: survived}]
  - when: {pattern: '^deadly again'}
    rounds:
      - &look_then_die {tools: [{name: Peek}, {name: Die}]}
      - *look_then_die
      - *look_then_die
      - *look_then_die
      - {text: survived}
  - when: {pattern: '^deadly'}
    rounds: [{tools: [{name: Die}]}, {text: 'told: {result}'}]
  - rounds: [{text: 'heard {input}', delay_ms: 3}]
"""

#: The book of the commands that ran, as a command finds it wherever it runs.
_OUTSIDE = "${HOLON_AGENT_HOME%/agents/*}-outside/commands"

#: Read once, in the nursery: a worker should not spend its life on parsing.
SCRIPT = parse_script(_RULES.replace("$OUTSIDE", _OUTSIDE), source="the crash tests")


class Pause(Input, frozen=True, kw_only=True):
    #: How long the call goes on after it has left its mark.
    ms: int = 0


class Nothing(Input, frozen=True, kw_only=True):
    pass


def tools(outside: Outside) -> list[Tool]:
    async def stamp(context: CallContext, asked: Pause) -> ToolOutcome:
        outside.stamp(context.call_id)
        await asyncio.sleep(asked.ms / 1000)
        return ToolOutcome(content="done", summary="left its mark")

    async def fail(context: CallContext, _asked: Nothing) -> ToolOutcome:
        outside.stamp(context.call_id)
        raise RuntimeError("this tool always breaks")

    async def die(context: CallContext, _asked: Nothing) -> ToolOutcome:
        outside.stamp(context.call_id)
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("nobody gets here")

    async def newest(context: CallContext, _asked: Nothing) -> ToolOutcome:
        """The id of the agent's newest command, for the calls that follow it."""
        outside.stamp(context.call_id)
        folders = sorted(path.name for path in (Path(context.agent.agent_home) / "task-output").glob("*"))
        return ToolOutcome(content=folders[-1] if folders else "none", summary="looked")

    async def newest_child(context: CallContext, _asked: Nothing) -> ToolOutcome:
        """The task of the agent's newest child."""
        outside.stamp(context.call_id)
        path = Path(context.agent.agent_home).parents[1] / "state" / "holon.sqlite3"
        with closing(sqlite3.connect(path)) as connection:
            sql = "SELECT MAX(id) FROM tasks WHERE agent_id = ? AND kind = 'child_agent_task'"
            (task_id,) = connection.execute(sql, (context.agent.agent_id,)).fetchone()
        return ToolOutcome(content=task_id or "none", summary="looked")

    return [
        Tool(name="Newest", description="Names the newest command.", input_type=Nothing, run=newest, read_only=True),
        Tool(name="NewestChild", description="Names it.", input_type=Nothing, run=newest_child, read_only=True),
        Tool(name="Stamp", description="Leaves a mark.", input_type=Pause, run=stamp),
        Tool(name="Peek", description="Looks.", input_type=Pause, run=stamp, read_only=True),
        Tool(name="Break", description="Fails.", input_type=Nothing, run=fail),
        Tool(name="Die", description="Brings the process down.", input_type=Nothing, run=die),
    ]
