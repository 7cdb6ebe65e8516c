"""What pages of cluster administration show and do, without HTTP."""
