"""llama.cpp's server: started, drafted for and recorded."""
