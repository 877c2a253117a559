"""RSA keys of the tests' own timestamp authorities, by size: worthless, and always the same.

Making one takes seconds, and tests that make their own are never twice the same.
"""

from __future__ import annotations

from functools import cache

from cryptography.hazmat.primitives.asymmetric import rsa

__all__ = ["rsa_key"]

PRIMES = {
    1024: (
        (
            "cc3d6f1fb2bcf8350e3d5fd3adb0903b511950884b5230a63413cb025c3793c0e749844480c39495"
            "a4b157975a970e51f4c146700aa39ab194e2a2d2c3783041"
        ),
        (
            "c1de2f4e0bde2331944ad28d7243e457f7fa5dafbe31044b89efbe986af21deabe15ee5fdf8f31f9"
            "01201801fe59f2e705c0a96f0fcc87940e71a1d007dffd9b"
        ),
    ),
    2048: (
        (
            "f0914a4bb4d0ec708265f6449e7e6d1ed0805947557e16de947c1d3efbddbd9834a5c0f5ab25e624"
            "9c4ad4da4214f895b83c4a29e65b11470b69f1853237cef7fe3e448176df55adc450c96b65af33da"
            "1d0242149fbc78289a23e5b8c0db82ef7bd647769b067672d3ba83182ff31380397096af9de15fc5"
            "19c58aff3576f415"
        ),
        (
            "b7c91794df9c0cd3e362a2e04424806593e9b1d97e4285a9cfefd6905d9fd284c453113f2ea2192f"
            "ddb73b4af3f349a73fe9d812f2cec642c4d0aaa9183f387cb9527b7c5d48e1cb5a3923a9d97d1bad"
            "eea7cc62011f4b26835211ee62939773665240194b03e373e008381951b3f5855d42781c5f5a9afb"
            "5712dd1a78447711"
        ),
    ),
    3072: (
        (
            "d6ea48fc7273adbf96db6f20d3b4d0bab64c73a9a33cb1580be5ecffe7175bfc374882485d7d17d5"
            "bf9609b0d56b0db09f745f87c2469d00abfd4385b84029c91555e075433e720139872bb8187e31ea"
            "b5dad152b20348aee1d26075787e5b4e4edfcefd3b587feee16a3f98d53eed6bdf8bbda20f9b1df9"
            "b2d9ea141470a43653c78cec09a7545035b7da322fd0479244049a07611ca00d1219ffdadb72c638"
            "f2354800bc96cec297160d46eeaf8a61c1f70f41aa82f8de79a02404c24c89cb"
        ),
        (
            "b51e8ef379ecf8a9c70bc93881d9789da2a1673a7b3f7296d30b2541432ce6e06291d91adf4d9e39"
            "a789ed8daaac179cdbb38b5c5ea33900a0b9a9e90f8af1b356db582c6021ba6708246ba08c08e4c0"
            "c994ff518526671c7a1a284eca5e44886d9fbbfa7fa946a0e425a385966c1f41a7614867540fa5c0"
            "ed1fa857693c1f79ca95fa2fe5baaa52698e0c1e69c2076a1eb1f30612155fe7f20da9ea0051f9e9"
            "b73a9c7dd18e794b3ff4e4b5e578aecfcb5d37f10d81eec9b950347efb94138f"
        ),
    ),
    4096: (
        (
            "e9a98386089cf623c5a83d874f8f546b48e71324660353cd454d563028c67dc828dbd6370b26c5b8"
            "2210faef83138db4b18751da3a2e035917bf2229aeeb0a3ab5e426a81a9796c96796d2484a96b4cb"
            "fbe461b1d0f59d57bbb7908a0b322050f699d92779845a241a68fec1c53ae2dac34410135a1816c4"
            "85466096dc04ad6719bb29d8386acd5cc90d33c0ea308c2e56e0a8df5e39c779d2532a713a60e840"
            "e255418923567266ad822e387f5123ce5853762257212ab7cb8b87554e4fb09fe556f28d56fbaf6e"
            "9a8fa3889f48a24f8e376f84959f0cbbe9fbb3d02877f8a426eb0b0f3c8efd2b436da87c6773f478"
            "707b1a274e599a671d2f06f80fdb617b"
        ),
        (
            "d624a72c48dcf56921f92b46fa6c1ea7a50a9b14f7bb3d3edcd31573370aa402c12b69a62ff76f4b"
            "8df5c162c77445875287fa48b3149e15023c064c9f5363ce20854f16117242d5a9f2816bf08689a8"
            "eced98b2f4e5ab2538dc48aca063900102b399b51f26e6fbb951f30871b8d53828a460f5c881e15b"
            "84400d1af6f4410dd96a19891594c8c4bad5ead6349cde313669d76e2b4d96580e69af8ef4c14a33"
            "bc007a886117a8b7902b3622def652a07efcf8b377a8bb3eb4b1070f172773b44526baafc4bcf785"
            "2d07e48f147ba109e258977f945f88d4025a838a15f61453b318311b6273d6a3c0ec23affce3756a"
            "beea352c46a77a8e5efb71af324c0a2f"
        ),
    ),
}


@cache
def rsa_key(bits: int) -> rsa.RSAPrivateKey:
    """The key of this size, with public exponent 65537."""
    p, q = (int(prime, 16) for prime in PRIMES[bits])
    d = pow(65537, -1, (p - 1) * (q - 1))
    numbers = rsa.RSAPrivateNumbers(
        p,
        q,
        d,
        rsa.rsa_crt_dmp1(d, p),
        rsa.rsa_crt_dmq1(d, q),
        rsa.rsa_crt_iqmp(p, q),
        rsa.RSAPublicNumbers(65537, p * q),
    )
    return numbers.private_key()
