"""The parts of a manager, and how they hang together. What they do stands in their own modules."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass

from lazyd import places
from lazyd.config import Loaded
from lazyd.core import view
from lazyd.core.core import Core
from lazyd.core.events import Configure, Event, HostFound, LeaseBusy, WorkerExited, WorkerStarted
from lazyd.core.meanings import Kept
from lazyd.core.names import model_key
from lazyd.core.pace import pace_s
from lazyd.core.release import counted
from lazyd.core.remembering import take
from lazyd.core.spec import Config
from lazyd.devices.first_look import FirstLook
from lazyd.devices.nvml import Nvml, has_library
from lazyd.devices.ram import NAME as RAM
from lazyd.devices.ram import Ram
from lazyd.devices.source import Sample
from lazyd.varlink.connection import Connection

from . import effects, statusline
from .configuration import Configuration
from .control import interface
from .control.cached import Cached
from .control.calling import Caller
from .control.looking import Looking
from .control.methods import Methods
from .control.naming import Naming
from .control.recorded import Recorded
from .control.requests import Requests
from .control.reservations import Reservations
from .control.roles import Roles
from .driver import Driver
from .fetching.fetcher import Fetcher
from .fetching.fetching import Fetches
from .fitting import Fit
from .journal import Journal
from .meanings import MeaningsKeeper, promoted
from .memory.measuring import Measuring
from .memory.sampler import Surroundings
from .pages.known import Known
from .pages.warming import Warming
from .phase import Phase
from .pins import PinKeeper
from .prediction.learning import Learning
from .prediction.predictor import Predictor
from .processes.hostkeeper import HostKeeper
from .processes.hostlink import HostLink
from .processes.keeping import Keeping
from .processes.placing import Gpus
from .processes.preparing import Preparing
from .processes.proxies import Proxies
from .processes.workers import Workers
from .readiness.history import History
from .readiness.remembering import Remembering
from .readiness.schedules import Schedules
from .readiness.wallclock import WallClock
from .registering import Registering
from .statusline import StatusLine
from .systemd import Systemd
from .tasks import Background
from .watching import Watching

URGENT = (HostFound, WorkerStarted, WorkerExited, LeaseBusy)
"""After these, memory may be about to change."""


LOOK_S = 10.0
"""Zygotes are prepared when the GPUs have been found, or after this time."""


@dataclass(frozen=True, kw_only=True)
class Beginnings:
    """What is there before the loop runs."""

    version: str
    config_file: str | None
    runtime: str
    state: str
    listening: socket.socket
    inherited: bool
    """The socket is systemd's, and stays when this process ends."""
    roles: Roles
    loaded: Loaded
    pins: frozenset[str]
    meanings: dict[str, Kept]
    """By name: what people have said of it, and what it has meant."""
    ram: Sample
    gpus: Nvml
    first: FirstLook
    """The first look at the GPUs, under way."""


class Parts:
    """Everything that lives as long as the manager. `phase` says what it is doing, `on_bug` ends it."""

    def __init__(self, given: Beginnings, is_ending: Callable[[], bool], on_bug: Callable[[], None]) -> None:
        self._is_ending = is_ending
        self.systemd = systemd = Systemd()
        self.background = background = Background()
        self.connections: set[Connection] = set()
        self.core = core = Core(new_id)
        self.status_line = StatusLine(systemd, self._words)
        self.journal = journal = Journal(self.status_line.changed)
        self.driver = driver = Driver(core, on_bug)
        self.configuration = configuration = Configuration(
            given.config_file, given.state, given.loaded, systemd, journal.add, lambda: promoted(self.meanings.kept)
        )
        configuration.on_change = self._put_in_force
        self.watching = Watching(configuration, background)
        registering = Registering(configuration, background, driver.until, self._is_gone)
        self.pins = pins = PinKeeper(given.state, given.pins)
        self.meanings = meanings = MeaningsKeeper(given.state, given.meanings)
        requests = Requests(driver)
        self.workers = workers = Workers(
            self._hear, configuration.spec_of, background.once, lambda: counted(core.world)
        )
        self.learning = learning = Learning(
            places.learned_file(given.state), background, lambda reason: journal.add("learned needs", reason=reason)
        )
        self.history = history = History(
            places.history_file(given.state),
            lambda: configuration.config.settings.history,
            background,
            lambda reason: journal.add("history", reason=reason),
        )
        self.remembering = remembering = Remembering(
            places.readiness_file(given.state),
            background,
            lambda reason: journal.add("remembered", reason=reason),
            take=lambda: take(core.world),
            tell=driver.tell,
        )
        self.schedules = Schedules(driver.tell, WallClock())
        self.fetches = fetches = Fetches(
            Fetcher(given.runtime, given.state, starts=not systemd.present),
            given.state,
            background,
            driver.tell,
            configuration.spec_of,
            lambda: configuration.config,
            loaded=lambda: [instance.model.key for instance in core.world.instances()],
            wanted=lambda: list(core.world.wanting),
        )
        self.predictor = predictor = Predictor(
            configuration.spec_of, driver.tell, background, learning, lambda: workers.gpus, fetches
        )
        self.keeping = keeping = Keeping()
        workers.gpus = gpus = Gpus(has_library, given.gpus.uuid, lambda: self.measuring.until_seen())
        self.ram = Ram()
        around = Surroundings(
            workers=workers,
            tell=self._sampled,
            pace_s=lambda device: pace_s(core.world, device),
            reservations=lambda: core.world.reservations,
            note=lambda kind, device, reason: journal.add(kind, device=device, reason=reason),
        )
        self.measuring = measuring = Measuring(self.ram, given.gpus, around, given.first)
        known = Known(configuration.spec_of, background)
        self.warming = warming = Warming(
            requests,
            driver.tell,
            lambda: core.world.locks,
            lambda: workers.link,
            self.ram,
            known,
            background,
            journal.add,
        )
        driver.connect(
            effects.table(
                requests,
                workers,
                predictor,
                fetches,
                pins,
                meanings,
                keeping,
                measuring,
                history,
                remembering,
                warming,
                known,
                journal,
            )
        )
        self.proxies = Proxies(lambda: configuration.config, lambda kind, reason: journal.add(kind, reason=reason))
        self.preparing = Preparing(configuration, pins, background, gpus, lambda: given.first.samples(LOOK_S))
        self.host = HostKeeper(
            given.runtime,
            given.listening.getsockname(),
            given.version,
            workers,
            self._hear,
            starts_hosts=not systemd.present,
            on_connected=self._host_connected,
            note=lambda kind, reason: journal.add(kind, reason=reason),
        )
        self.fit = fit = Fit(lambda: configuration.config, self._devices, configuration.files, background)
        looking = Looking(
            core,
            configuration,
            fit,
            predictor.foresee,
            fetches.head,
            known,
            journal,
            measuring,
            given.runtime,
            given.version,
            phase=lambda: self.phase,
            clients=lambda: len(self.connections),
            deaths=background.deaths,
            problems=lambda: [*configuration.problems, *self._problems_of_files, *self.proxies.problems],
        )
        recorded = Recorded(core, lambda: configuration.config, history, predictor.foresee)
        methods = Methods(driver, requests, looking, pins, configuration, registering, fit, warming, given.runtime)
        reservations = Reservations(
            driver,
            requests,
            devices=lambda: [device.name for device in view.devices(core)],
            seen=measuring.seen,
            are_all=lambda: core.world.driver_problem is None,
            reserved=lambda: core.world.reservations,
            is_ending=is_ending,
        )
        naming = Naming(core, requests, meanings)
        cached = Cached(fetches, looking, lambda: configuration.config)
        caller = Caller(driver, requests, given.runtime)
        self.service = interface.service(
            given.version, given.roles, looking, recorded, methods, naming, cached, reservations, caller
        )

    @property
    def phase(self) -> Phase:
        if self._is_ending():
            return Phase.STOPPING
        return Phase.RUNNING if self.host.serves else Phase.STARTING

    @property
    def clerks(self) -> tuple[Learning, History, Remembering]:
        """Those who keep what outlives this manager."""
        return self.learning, self.history, self.remembering

    @property
    def _problems_of_files(self) -> list[str]:
        """What is wrong with what they keep, a line each."""
        return [problem for clerk in self.clerks for problem in clerk.problems]

    def connection(self) -> Connection:
        """The protocol of a new client."""
        return Connection(self.service, self.connections)

    def _words(self) -> str:
        problems = [
            *self.configuration.problems,
            *self.configuration.refused,
            *filter(None, [self.pins.problem, self.meanings.problem]),
            *self._problems_of_files,
            *self.proxies.problems,
            *self.fit.warnings,
        ]
        return statusline.words(self.core, self.phase, problems)

    def _devices(self) -> dict[str, int] | None:
        """The devices of the machine with their bytes, once the driver has named its GPUs. Of one that has
        never answered nothing is known, and nothing is too much for it."""
        if self.measuring.named is None:
            return None
        sizes = {device.name: device.total_bytes for device in self.core.world.ledger.devices.values()}
        return {name: sizes.get(name, sys.maxsize) for name in (RAM, *self.measuring.named)}

    def _sampled(self, event: Event) -> None:
        """What a sampler tells of its device."""
        self.driver.tell(event)
        self.warming.hear_event(event)
        self.fit.look()

    def _hear(self, event: Event) -> None:
        """What host and workers tell. How soon devices are to be sampled depends on some of it."""
        self.driver.tell(event)
        if isinstance(event, URGENT):
            self.measuring.stir()

    def _host_connected(self, link: HostLink) -> None:
        self.ram.pid = link.pid  # the budget is of what the host's cgroup has
        self.ram.membership = link.hello.cgroup
        self.keeping.connected(link)
        self.predictor.connected(link)
        self.preparing.connected(link)
        self.proxies.connected(link)
        self.warming.connected(link)
        self.status_line.changed()

    def _is_gone(self, key: str) -> bool:
        """Whether nothing is left of a model that is not configured any more; if it is again, that is another one."""
        is_again = key in self.configuration.config.models
        return is_again or all(model_key(instance.model.spec.key) != key for instance in self.core.world.instances())

    def _put_in_force(self, config: Config) -> None:
        self.driver.tell(Configure(config=config, pins=self.pins.pins))
        self.schedules.put_in_force(config)
        self.fit.look()
        self.watching.look()
        self.preparing.tell()
        self.proxies.tell()
        self.status_line.changed()


def new_id() -> str:
    """A name that no other worker, lease or token has ever had, and that nobody can guess."""
    return os.urandom(16).hex()
