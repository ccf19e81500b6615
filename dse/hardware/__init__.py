"""Files for the hardware: the control block, the whole engine in SystemVerilog, the scheduler's table in C."""

from ..choices import HardwareFormat
from .files import write_hardware

__all__ = ["HardwareFormat", "write_hardware"]
