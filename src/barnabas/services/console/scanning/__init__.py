"""Search of records: a pool of processes that read topics and look for records, and what the console asks of them.

    async with Pool() as pool:
        scanner = Scanner(pool, Registry("http://127.0.0.1:8081"))
        async for event in scanner.search(client, Search(topic="orders", find="4711")):
            ...  # Hits, Progress, at last End

The console's own process imports neither pyarrow nor numba: they are in `worker/`, which runs in the processes.
"""
