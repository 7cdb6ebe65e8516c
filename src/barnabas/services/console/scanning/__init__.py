"""Record search: a pool of processes that read and filter topics, and the console's interface to them.

    async with Pool() as pool:
        scanner = Scanner(pool, RegistryAccount.at("http://127.0.0.1:8081"))
        async for event in scanner.search(client, Search(topic="orders", find="4711")):
            ...  # Hits, ScanProgress, finally ScanEnd

The console process imports neither pyarrow nor numba: only `worker/` does, in the search processes.
"""
