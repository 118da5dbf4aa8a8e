"""The manager's side of fetching (docs/fetching.md): `fetching` decides what is fetched, `fetcher` asks the process
that does it, which is the only one with a network; `places` says where a URL's files will be."""
