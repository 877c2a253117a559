"""What libsodium alone does on this machine: the limit everything is compared with."""

from __future__ import annotations

import os
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from nacl import bindings

__all__ = ["verifications_per_second"]


def _verify(message_bytes: int, seconds: float) -> float:
    public, secret = bindings.crypto_sign_seed_keypair(bytes(32))
    signed = bindings.crypto_sign(bytes(message_bytes), secret)
    count, started = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - started) < seconds:
        for _ in range(100):
            bindings.crypto_sign_open(signed, public)
        count += 100
    return count / elapsed


def verifications_per_second(message_bytes: int, seconds: float = 3.0) -> float:
    """Ed25519 verifications per second with one process per core."""
    cores = os.cpu_count() or 1
    with ProcessPoolExecutor(cores, mp_context=get_context("spawn")) as pool:
        # Start the processes first: their start-up is not libsodium's.
        list(pool.map(_verify, [message_bytes] * cores, [0.01] * cores))
        return sum(pool.map(_verify, [message_bytes] * cores, [seconds] * cores))
