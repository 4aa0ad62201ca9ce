"""Long texts that enter the cache as fewer vectors."""
