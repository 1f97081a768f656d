"""The bounded cache: limits on entries and bytes, eviction of the least recently used entry, and expiry."""

from __future__ import annotations

from mcp_products.common.caches import BoundedCache


def test_the_least_recently_used_entry_is_evicted() -> None:
    cache: BoundedCache[str, int] = BoundedCache(2)
    cache.put("a", 1)
    cache.put("b", 2)
    assert cache.get("a") == 1
    cache.put("c", 3)
    assert [cache.get(key) for key in "abc"] == [1, None, 3] and len(cache) == 2


def test_an_entry_expires_after_its_ttl_and_never_later_than_that_of_the_cache() -> None:
    now = [0.0]
    cache: BoundedCache[str, str] = BoundedCache(10, ttl=10.0, clock=lambda: now[0])
    cache.put("default", "x")
    cache.put("short", "x", ttl=5.0)
    cache.put("long", "x", ttl=50.0)
    now[0] = 5.0
    assert cache.get("short") is None and cache.get("default") == cache.get("long") == "x"
    now[0] = 10.0
    assert cache.get("default") is None and cache.get("long") is None and len(cache) == 0


def test_entries_without_a_ttl_do_not_expire() -> None:
    now = [0.0]
    cache: BoundedCache[str, int] = BoundedCache(1, clock=lambda: now[0])
    cache.put("a", 1)
    now[0] = 1e12
    assert cache.get("a") == 1


def test_bytes_are_bounded_and_a_value_larger_than_the_cache_is_not_stored() -> None:
    cache: BoundedCache[str, int] = BoundedCache(10, max_bytes=10)
    cache.put("a", 1, size=6)
    cache.put("b", 2, size=4)
    cache.put("c", 3, size=4)
    assert [key for key, _ in cache.items()] == ["b", "c"]
    cache.put("d", 4, size=11)
    assert cache.get("d") is None and len(cache) == 2
    cache.put("b", 5, size=11)  # The old value must not survive a failed replacement.
    assert cache.get("b") is None


def test_removed_and_replaced_entries_free_their_bytes() -> None:
    cache: BoundedCache[str, int] = BoundedCache(10, max_bytes=10)
    for _ in range(5):
        cache.put("a", 1, size=10)
    cache.remove("a")
    cache.remove("a")
    cache.put("b", 2, size=10)
    assert cache.get("b") == 2
    cache.clear()
    cache.put("c", 3, size=10)
    assert cache.get("c") == 3 and len(cache) == 1


def test_entries_may_be_removed_while_iterating() -> None:
    cache: BoundedCache[int, int] = BoundedCache(10)
    for number in range(4):
        cache.put(number, number)
    for key, value in cache.items():
        if value % 2:
            cache.remove(key)
    assert [key for key, _ in cache.items()] == [0, 2]
