"""Operations data of a shop's services: requests, hosts and log lines."""
