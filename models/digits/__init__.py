"""The network that ships for real devices, with its test split (``docs/real-device.md``)."""
