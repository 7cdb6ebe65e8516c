"""The command line: `barnabas <noun> <verb>`. Command modules import what they run only when they run it."""
