"""Programs that decode masked blocks: what their settings can express, one module each."""
