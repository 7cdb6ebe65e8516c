"""What others send over UDP, TCP and TLS, in messages: for syslog and statsd."""
