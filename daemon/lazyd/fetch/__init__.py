"""The fetcher: a process of its own that brings models' files to this machine, and the only one with a network.

- `main`, `server` the process: its socket, its connections, its end when there is nothing left to do
- `jobs` what models wait for: a URL, whoever wants it; `downloads` one file, however many wait for it
- `remote` a URL by fsspec, `manifest` which files it means, `credentials` what it is let in with
- `heads` the beginnings of files, `ranges` parts of files of web servers
- `failures` what can go wrong, `patience` how often it is tried again
- `cache` what lies on the disk, `entries` what is noted of it; `room` how much it may be, and who leaves

The manager imports `cache`, `entries` and `room` alone, to see what is there. fsspec is imported in `remote`, when
there is something to fetch.
"""
