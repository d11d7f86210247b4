"""The host: one process that owns a home and lets its agents live. It opens, recovers, runs and closes everything."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from types import TracebackType

from holon import __version__
from holon.core.clock import Clock, moment
from holon.core.errors import HolonError
from holon.core.event_kinds import RuntimeStarted, ShutdownRequested
from holon.core.events import RUNTIME_SCOPE
from holon.core.messages import (
    AdmissionContext,
    DeliverySurface,
    MessageKind,
    Priority,
    SystemOrigin,
    TextBody,
)
from holon.core.transitions import Transition
from holon.providers.models import ModelTable
from holon.providers.selection import Providers
from holon.runtime import status
from holon.runtime.admission import Admission, Inbox, admit
from holon.runtime.beginning import Assembly
from holon.runtime.children import Children
from holon.runtime.command_tasks import CommandTasks
from holon.runtime.confinement import Confinement
from holon.runtime.directory import Directory
from holon.runtime.dispatcher import Dispatcher
from holon.runtime.following import Following
from holon.runtime.guiding import Guiding
from holon.runtime.hands import Hands
from holon.runtime.housing import Housing
from holon.runtime.inspection import Inspection
from holon.runtime.isolation import Isolation
from holon.runtime.keeping import Keeping
from holon.runtime.lifecycle import Lifecycle
from holon.runtime.modelling import Modelling
from holon.runtime.outages import Outages
from holon.runtime.overseeing import Overseer
from holon.runtime.pricing import Pricing
from holon.runtime.pulse import Errands, Pulse
from holon.runtime.recovery import Recovered, recover
from holon.runtime.settings import Settings
from holon.runtime.shelves import Shelves
from holon.runtime.skilling import Skilling
from holon.runtime.supervising import archive_orphans
from holon.runtime.timers import Timers
from holon.runtime.triggers import Triggers, load_secret
from holon.runtime.turn import TurnDriver
from holon.runtime.views import Views
from holon.runtime.waking import Waking
from holon.runtime.windows import Windows
from holon.store import Store, Tx, activations, agents, leases
from holon.tasks.commands import CommandRunner
from holon.tools.commands import command_tools
from holon.tools.delegation import delegation_tools
from holon.tools.registry import CallContext, Tool, ToolRegistry
from holon.tools.rest import SLEEP, enqueue_tool
from holon.tools.skills import SkillTools
from holon.tools.tasking import task_tools
from holon.tools.workspace import workspace_tools

log = logging.getLogger("holon.host")


class Host:
    """Made by `Host.open`. Its attributes are the services that surfaces call."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        lock: leases.HomeLock,
        fence: int,
        providers: Providers | None,
        tools: list[Tool],
    ) -> None:
        self.settings, self.store, self.clock = settings, store, store.clock
        self.fence, self._lock = fence, lock
        self.started_at = moment(store.clock.now_ms())
        self.shutdown_requested = asyncio.Event()
        #: Where TCP callers reach this process; the server tells it once it listens.
        self.http_addr = f"{settings.http_host}:{settings.http_port}"
        self.problem: HolonError | None = None
        #: Another process has the home now.
        self.fenced = False
        self.outages = Outages(store)
        limits, default = settings.limits, settings.default_agent_id
        self.models = ModelTable(settings.models)
        self.providers = providers or Providers.from_configuration(
            settings.home, settings.providers, models=self.models
        )
        self.guiding = Guiding(settings.agents_dir)
        secrets = [settings.control_token] if settings.control_token else []
        self.confinement = Confinement(store, settings.home, settings.backend, default, settings.execution)
        self.commands = CommandTasks(store, CommandRunner(settings.home / "run"), limits, self._kick)
        self.isolation = Isolation(store, self.commands, limits, self._kick, self.confinement.git_cell)
        self.shelves = Shelves(store, self.isolation)
        self.housing = Housing(store, settings.home, self.confinement, self.isolation, secrets)
        self.views = Views(store, settings, self.guiding, self.housing, self.outages)
        self.agents = Directory(store, settings.agents_dir, default, self._kick, settings.user_home)
        self.children = Children(
            self.agents,
            self.views,
            self.housing,
            self.isolation,
            settings.agents_dir,
            limits,
            store,
        )
        hands = self._hands = Hands(
            store,
            self.housing,
            self.commands,
            settings.home / "state" / "patches",
            settings.default_tool_output_tokens,
            settings.max_tool_output_tokens,
        )
        self.overseer = Overseer(store, self.commands, self.isolation, limits, self._kick, self._abort_live)
        self.skills = Skilling(
            store,
            self.models,
            settings.agents_dir,
            default,
            settings.skills,
            settings.user_home,
            self.housing.anchor_of,
        )
        hands.notice = self.skills.notice
        self.registry = ToolRegistry.of(
            [
                SLEEP,
                enqueue_tool(self._follow_up),
                *delegation_tools(self.children),
                *command_tools(hands),
                *task_tools(self.overseer),
                *workspace_tools(self.housing),
                *SkillTools(store, self.skills.library, settings.skills, self.skills.costing).tools(),
                *tools,
            ]
        )
        self._windows, self._tools = Windows(), self.registry.specs()
        driver = TurnDriver(
            store,
            self.providers,
            self.registry,
            self._windows,
            self.models,
            limits,
            settings.model_fallbacks,
            self.outages,
        )
        self.dispatcher = Dispatcher(
            store, driver, self.registry, self._windows, limits, self._assemble, self._lost_the_home, self.outages
        )
        self.dispatcher.child_rested = self.isolation.look
        kick = self.dispatcher.kick
        self.retention = Keeping(store, settings.retention, settings.agents_dir)
        self.inbox = Inbox(store, limits, default, self.dispatcher)
        self.lifecycle = Lifecycle(store, limits, default, self.dispatcher)
        self.waking = Waking(store, limits, default, kick)
        self.triggers = Triggers(store, limits, default, kick, load_secret(settings.secret_path), self.base_url)
        self.events = Following(store, default)
        errands: list[Errands] = [self.agents, self.isolation]
        self.pulse = Pulse(store, self.dispatcher, errands, self.retention, limits, self.registry, self.note_problem)
        self.timers = Timers(store, default, self.pulse.changed, limits)
        self.pricing = Pricing(store, self.models)
        self.modelling = Modelling(store, settings, self.providers, self.models)
        self.inspection = Inspection(store, self.views, self._assemble, self.providers.supports_prompt_caching, default)

    @classmethod
    async def open(
        cls,
        settings: Settings,
        *,
        purpose: str = "holon",
        clock: Clock | None = None,
        providers: Providers | None = None,
        tools: list[Tool] | None = None,
    ) -> Host:
        """Takes the home, settles what an earlier process left, and begins to work."""
        lock = leases.HomeLock(settings.lock_path)
        lock.acquire(purpose)
        try:
            store = Store(settings.database_path, clock=clock)
        except BaseException:
            lock.release()
            raise
        try:
            fence = await _acquire(store)
            host = cls(settings, store, lock, fence, providers, tools or [])
            await host._start()
        except BaseException:
            store.close()
            lock.release()
            raise
        return host

    async def close(self) -> None:
        """Leaves every open turn where it stands, on disk; the next start takes it up."""
        await self.pulse.close()
        await self.dispatcher.close()
        await self.isolation.close()
        await self.commands.close()
        await self.housing.close()
        self.events.close()
        await self.providers.close()
        self.store.close()
        self._lock.release()

    async def __aenter__(self) -> Host:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def base_url(self) -> str:
        return self.settings.advertise_url or f"http://{self.http_addr}"

    async def runtime_status(self) -> status.RuntimeStatus:
        problem = await self.outages.look() or self.problem
        activity = await self.store.read(status.activity)
        return status.RuntimeStatus(
            ok=True,
            healthy=problem is None,
            version=__version__,
            pid=os.getpid(),
            started_at=self.started_at,
            fence=self.fence,
            config_fingerprint=status.fingerprint(self.settings),
            model_default=self.settings.model_default,
            model_fallbacks=self.settings.model_fallbacks,
            limits=self.settings.limits,
            activity=activity,
            startup_surface=status.surface(self.settings, self.http_addr, self.base_url()),
            database_bytes=await asyncio.to_thread(self.store.size_bytes),
            problem=status.problem_words(problem, self.outages.waiting) if problem else None,
            last_failure=await self.store.read(agents.newest_failure),
        )

    async def request_shutdown(self, surface: str) -> None:
        """Ends this process, not its agents: they go on at the next start."""
        event = ShutdownRequested(surface=surface)
        try:
            await self.store.write(lambda tx: tx.emit(RUNTIME_SCOPE, event), at=Transition.AUDIT)
        finally:  # also with a disk that takes nothing more
            self.shutdown_requested.set()

    async def _start(self) -> None:
        self.events.start()
        recovered = await self.store.write(self._recover, at=Transition.HOST_RECOVER)
        await self.agents.tidy()
        await self.agents.ensure_default()
        await self._hands.recover()
        await self.housing.recover()
        await self.commands.recover()
        self.dispatcher.open(recovered.resume, recovered.ready)
        await self.isolation.end_orphans()
        self.pulse.start()

    def _recover(self, tx: Tx) -> Recovered:
        archive_orphans(tx)
        recovered = recover(tx, self.settings.limits)
        activations.restore(tx)
        tx.emit(
            RUNTIME_SCOPE,
            RuntimeStarted(
                version=__version__,
                fence=self.fence,
                resumed_turns=len(recovered.resume),
                quarantined=recovered.quarantined,
            ),
        )
        return recovered

    async def _assemble(self, agent_id: str) -> Assembly:
        """What the agent's next turn is made with. Files are looked at here, outside of any transaction."""
        return Assembly(
            windows=self._windows,
            models=self.models,
            model_default=self.settings.model_default,
            tools=self.confinement.offered(agent_id, self._tools),
            sections=self.guiding.sections(agent_id, self.housing.anchor_of(agent_id)),
            padding=self.settings.padding,
            offer=await self.skills.offer(agent_id),
            opened=self.skills.opened,
        )

    def _follow_up(self, tx: Tx, context: CallContext, text: str, priority: Priority) -> None:
        """A follow-up that the model asked for: an explicit message of its own."""
        envelope = context.envelope
        admit(
            tx,
            context.agent.agent_id,
            Admission(
                agent_id=context.agent.agent_id,
                kind=MessageKind.INTERNAL_FOLLOWUP,
                origin=SystemOrigin(subsystem="self_followup"),
                body=TextBody(text=text),
                surface=DeliverySurface.RUNTIME_SYSTEM,
                context=AdmissionContext.RUNTIME_OWNED,
                priority=priority,
                correlation_id=envelope.correlation_id or envelope.id,
                causation_id=envelope.id,
                private=True,
            ),
            self.settings.limits,
        )

    def _kick(self, agent_id: str) -> None:
        self.dispatcher.kick(agent_id)

    def _abort_live(self, agent_id: str) -> None:
        if (live := self.dispatcher.live.get(agent_id)) is not None:
            live.abort()

    def _lost_the_home(self) -> None:
        """Another process took over: this one must not go on."""
        self.fenced = True
        self.shutdown_requested.set()

    def note_problem(self, error: HolonError | None) -> None:
        """What the last beat met; a problem that has passed is forgotten."""
        self.problem = error
        if error is not None and error.code == "fenced":
            self._lost_the_home()


async def _acquire(store: Store) -> int:
    owner = f"{socket.gethostname()}:{os.getpid()}"
    fence = await store.write(lambda tx: leases.take(tx, leases.HOME, owner), at=Transition.HOST_ACQUIRE)
    store.fence_with(leases.HOME, fence)
    return fence
