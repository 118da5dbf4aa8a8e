"""The methods about names that may mean several models: `Versions`, `Promote`, `Rollback`."""

from __future__ import annotations

from lazyd.core import events, versions
from lazyd.core.answers import Outcome, Promoted
from lazyd.core.core import Core
from lazyd.core.names import split
from lazyd.errors import InvalidParameter, ModelNotFound, NotKept
from lazyd.varlink import parameters as given_for
from lazyd.varlink.call import Call

from ..epoch import epoch
from ..meanings import MeaningsKeeper
from .requests import Requests, or_refuse


class Naming:
    """One handler a method."""

    def __init__(self, core: Core, requests: Requests, meanings: MeaningsKeeper) -> None:
        self._core = core
        self._requests = requests
        self._meanings = meanings

    def versions(self, call: Call, given: given_for.Versions) -> None:
        """Looks, and changes nothing."""
        named = versions.named(self._core, given.model, epoch())
        if named is None:
            raise ModelNotFound(model=given.model or "", nearest=self._core.world.nearest(given.model or ""))
        call.reply({"names": named})

    def promote(self, call: Call, given: given_for.Promote) -> None:
        self._check_name(given.model)
        key = None if given.version is None else self._key(given.model, given.version)
        call.run(or_refuse(call, self._promote(call, given.model, key)))

    def rollback(self, call: Call, given: given_for.OfModel) -> None:
        self._check_name(given.model)
        if versions.previous(self._core, given.model) is None:
            reason = f"nothing is known that {given.model} has meant before and that is still configured"
            raise InvalidParameter(parameter="model", reason=reason)
        call.run(or_refuse(call, self._rollback(call, given.model)))

    async def _promote(self, call: Call, name: str, key: str | None) -> None:
        answer = await self._requests.ask(lambda n: events.Promote(request=n, name=name, model=key))
        await self._done(call, answer)

    async def _rollback(self, call: Call, name: str) -> None:
        answer = await self._requests.ask(lambda n: events.Rollback(request=n, name=name))
        await self._done(call, answer)

    async def _done(self, call: Call, answer: Outcome) -> None:
        """Answers when the change would outlive a restart. Raises `NotKept`: it is made, but would not."""
        assert isinstance(answer, Promoted)
        await self._meanings.settled()
        if self._meanings.problem is not None:
            change = f"meant by {answer.name}"
            raise NotKept(model=answer.model, change=change, reason=self._meanings.problem)
        call.reply({"model": answer.model, "before": answer.before, "answers": answer.answers})

    def _check_name(self, name: str) -> None:
        """Only a name that is no model's own can come to mean another one."""
        world = self._core.world
        if name in world.config.models:
            head, version = split(name)
            hint = f"name it without its version, as {head}" if version else "give it an alias, or its models versions"
            raise InvalidParameter(parameter="model", reason=f"{name} is one model, and means nothing else; {hint}")
        if name not in world.meanings:
            raise ModelNotFound(model=name, nearest=world.nearest(name))

    def _key(self, name: str, version: str) -> str:
        """The key of what is to be meant: given as such, or as a version of what the name means now.

        Raises:
            ModelNotFound: there is no such model.
            InvalidParameter: a name without its version can mean only versions of that name.
        """
        world = self._core.world
        head = split(world.meanings[name])[0]
        key = version if version in world.config.models else f"{head}:{version}"
        spec = world.config.models.get(key)
        if spec is None or spec.is_family:
            known = [version for version in versions.keys_of(world, name) if version in world.config.models]
            raise ModelNotFound(model=key, nearest=world.nearest(key) or next(iter(known), None))
        if name not in world.config.aliases and spec.name != name:
            raise InvalidParameter(parameter="version", reason=f"{key} is no version of {name}; an alias may mean it")
        return key
