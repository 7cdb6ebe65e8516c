"""Pages of the console in a real browser: Debian's Chromium, driven by Playwright, with axe-core."""
