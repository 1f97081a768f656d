"""A server and what it said in its 401 go in; the resource it is, and the authorization server it takes tokens of, come out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from ..errors import NotAuthorized
from ..http.asking import Spoken, plain
from ..http.headers import VERSION
from .asking import Asking
from .metadata import (
    Discovery,
    Issuer,
    Resource,
    issuer_urls,
    read_issuer,
    read_resource,
    resource_urls,
    usual_endpoints,
)


@dataclass(frozen=True, slots=True)
class Finding:
    """Finds the authorization server of `server`. `discovery`: None for what the revision spoken has. `issuers` and
    `aliases` are those of OAuth."""

    asking: Asking
    server: str
    discovery: Discovery | None
    issuers: Sequence[str]
    aliases: Mapping[str, Sequence[str]]

    async def find(self, hint: str | None, spoken: Spoken | None) -> tuple[Resource | None, Issuer]:
        """The resource, None where the server is its own authorization server, and the issuer. `hint`: where the 401
        says that the metadata of the resource is. Raises NotAuthorized."""
        headers = {VERSION: spoken.revision.id} if spoken is not None else {}
        if self._by_resource(spoken):
            found = await self._document(resource_urls(self.server, hint), headers)
            if found is not None:
                resource = read_resource(found, self.server, self.asking.policy)
                return resource, await self._issuer(resource.issuers, Discovery.BY_RESOURCE, headers)
            if hint is not None or not self._may_be_older(spoken):
                raise NotAuthorized(f"{plain(self.server)} does not say which authorization server it takes tokens of")
        parts = urlsplit(self.server)
        return None, await self._issuer((f"{parts.scheme}://{parts.netloc}",), Discovery.AT_SERVER, headers)

    def _by_resource(self, spoken: Spoken | None) -> bool:
        if self.discovery is not None:
            return self.discovery is Discovery.BY_RESOURCE
        return spoken is None or spoken.revision.http.resource_metadata

    def _may_be_older(self, spoken: Spoken | None) -> bool:
        """Whether the server may be of a revision without metadata of resources: no revision is agreed yet."""
        if self.discovery is not None or spoken is None:
            return False
        return any(not each.http.resource_metadata for each in spoken.others())

    async def _issuer(self, named: Sequence[str], discovery: Discovery, headers: Mapping[str, str]) -> Issuer:
        name = next((each for each in named if not self.issuers or each in self.issuers), None)
        if name is None:
            raise NotAuthorized(f"{plain(self.server)} takes tokens of no issuer that is trusted here")
        found = await self._document(issuer_urls(name, discovery), headers)
        if found is not None:
            return read_issuer(found, name, self.asking.policy, self.aliases.get(name, ()))
        if discovery is Discovery.AT_SERVER:
            return usual_endpoints(self.server)
        raise NotAuthorized(f"{plain(name)} has no metadata")

    async def _document(self, urls: Sequence[str], headers: Mapping[str, str]) -> object | None:
        """The first there is. What is there and cannot be used, is not passed over."""
        for url in urls:
            said = await self.asking.get(url, headers)
            if said.status == 200:
                if said.body is None:
                    raise NotAuthorized(f"{plain(url)} is no JSON")
                body: object = said.body
                return body
            if not 400 <= said.status < 500:
                raise NotAuthorized(f"{plain(url)}: status {said.status}")
        return None
