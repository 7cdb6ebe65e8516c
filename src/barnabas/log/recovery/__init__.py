"""Opening logs after a stop: what is believed, checked, cut, replayed; `barnabas log verify` and `repair`."""
