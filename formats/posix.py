"""The system that fluidb needs: outputs are locked and renamed as POSIX defines it."""

try:
    import fcntl
except ImportError:
    raise ImportError("fluidb needs Linux, macOS or another POSIX system; on Windows, use WSL") from None

__all__ = ["fcntl"]
