"""Records of internal topics and of KRaft's metadata log, declared like messages."""
