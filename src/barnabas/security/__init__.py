"""Who asks (`principal`, `context`), what that allows (`authorizer`), and how much of it (`quotas`)."""
