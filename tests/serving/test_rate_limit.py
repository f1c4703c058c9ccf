"""Rate limits, and the client addresses they count by."""

import pytest

from sightline.serving.http.guard import ClientAddresses, RateLimiter
from sightline.serving.http.problem import Problem


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def buckets(per_minute: int = 60, **options) -> tuple[RateLimiter, Clock]:
    clock = Clock()
    return RateLimiter(per_minute, what="tokens", flag="--max-tokens-per-minute", clock=clock, **options), clock


def test_budget_holds_for_a_minute_and_refills_evenly():
    budget, clock = buckets()
    budget.spend("a", 60)
    with pytest.raises(Problem, match="60 tokens per minute") as caught:
        budget.spend("a", 10)
    assert (caught.value.status, caught.value.retry_after) == (429, 10)
    clock.now = 9.9
    with pytest.raises(Problem):
        budget.spend("a", 10)
    clock.now = 10.1
    budget.spend("a", 10)


def test_clients_have_separate_budgets():
    budget, _ = buckets()
    budget.spend("a", 60)
    budget.spend("b", 60)


def test_more_than_a_whole_budget_is_granted_when_full_and_paid_back():
    budget, _ = buckets()
    budget.spend("a", 120)
    with pytest.raises(Problem) as caught:
        budget.spend("a", 1)
    assert caught.value.retry_after == 61


def test_no_limit_is_no_limit():
    budget, _ = buckets(0)
    for _ in range(100):
        budget.spend("a", 1_000_000)
    assert not budget.buckets


def test_memory_is_bounded_and_forgets_the_oldest():
    budget, _ = buckets(max_clients=10)
    for number in range(1000):
        budget.spend(f"client {number}", 1)
    assert list(budget.buckets) == [f"client {number}" for number in range(990, 1000)]


def scope(client: str, forwarded: str | None = None) -> dict:
    headers = [] if forwarded is None else [(b"x-forwarded-for", forwarded.encode())]
    return {"client": (client, 1), "headers": headers}


@pytest.mark.parametrize(
    ("trusted", "client", "forwarded", "expected"),
    [
        ((), "9.9.9.9", "1.2.3.4", "address-9.9.9.9"),
        (("10.0.0.0/8",), "9.9.9.9", "1.2.3.4", "address-9.9.9.9"),
        (("10.0.0.0/8",), "10.0.0.1", "1.2.3.4", "address-1.2.3.4"),
        (("10.0.0.0/8",), "10.0.0.1", "6.6.6.6, 1.2.3.4", "address-1.2.3.4"),
        (("10.0.0.0/8",), "10.0.0.1", "1.2.3.4, 10.0.0.7", "address-1.2.3.4"),
        (("10.0.0.0/8",), "10.0.0.1", "nonsense", "address-10.0.0.1"),
        (("10.0.0.0/8",), "10.0.0.1", None, "address-10.0.0.1"),
        ((), "2001:db8::1", None, "address-2001:db8::/64"),
    ],
)
def test_forwarded_address_is_believed_only_from_trusted_proxies(trusted, client, forwarded, expected):
    assert ClientAddresses(trusted).client_id(scope(client, forwarded)) == expected
