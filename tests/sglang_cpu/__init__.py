"""A real SGLang on two CPU cores: installed outside the clone, started by tests."""
