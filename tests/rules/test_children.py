"""The register of children, without a process: who is wanted, who takes whose place, who goes first."""

from pool.board.board import Board
from pool.board.lanes import Phase
from pool.board.record import Exit, Ordered, Role, State
from pool.seat import ChildSpec
from pool.supervisor.children import Child, Children, LastExit, Slot, Stage, least_needed_first


def spec(group: str = "workers", role: Role = Role.WORKER, **more: object) -> ChildSpec:
    return ChildSpec(role=role, group=group, count=1, run=lambda seat: 0, fingerprint="a", **more)  # type: ignore[arg-type]


class House:
    """A register with made-up pids."""

    def __init__(self, count: int = 2) -> None:
        self.board = Board(records=64)
        self.children = Children()
        self.children.want(spec(), count)
        self.next_pid = 1000

    def bear(self, number: int, *, as_heir: bool = False) -> Child:
        slot, record = self.children.slots[number], self.board.take_free()
        assert record is not None
        generation = self.children.next_generation(slot)
        self.next_pid += 1
        record.occupy(slot.role, number, generation, pid=0, group=slot.group, now=0.0)
        record.occupy(slot.role, number, generation, pid=self.next_pid, group=slot.group, now=0.0)
        child = Child(number, generation, slot.spec, record, pid=self.next_pid)
        self.children.born(slot, child, as_heir=as_heir)
        return child

    def ready(self, number: int) -> Child:
        child = self.bear(number)
        self.children.ready(child, 1.0)
        child.record.process.write(State.IDLE, Exit.NONE, 0.0, 0.0, 0.0, 0, 0, 0, 0)
        return child

    def slot(self, number: int) -> Slot:
        return self.children.slots[number]


def test_a_group_has_as_many_places_as_are_wanted() -> None:
    house = House(3)

    assert [slot.number for slot in house.children.workers()] == [1, 2, 3]
    assert all(slot.needs_birth for slot in house.children.workers())


def test_the_keeper_takes_no_workers_number() -> None:
    house = House(2)
    house.children.want(spec("keeper", Role.KEEPER), 1)
    house.children.want(spec(), 4)

    assert [slot.number for slot in house.children.workers()] == [1, 2, 3, 4]
    assert [slot.role for slot in house.children.slots.values() if slot.number > 9000] == [Role.KEEPER]


def test_a_child_is_born_becomes_ready_and_is_gone() -> None:
    house = House()
    child = house.bear(1)
    assert (child.stage, house.slot(1).needs_birth) == (Stage.BORN, False)

    assert house.children.ready(child, 5.0) is None
    assert (child.stage, child.was_ready, house.slot(1).is_ready) == (Stage.READY, True, True)

    assert house.children.gone(child) is house.slot(1)
    assert (child.stage, house.slot(1).needs_birth) == (Stage.GONE, True)


def test_a_pid_means_nothing_once_its_child_is_gone() -> None:
    house = House()
    child = house.ready(1)
    assert house.children.by_pid(child.pid) is child

    house.children.gone(child)

    assert house.children.by_pid(child.pid) is None
    assert house.children.by_pid(4711) is None


def test_an_heir_takes_the_place_only_when_it_is_ready() -> None:
    house = House()
    old = house.ready(1)
    heir = house.bear(1, as_heir=True)
    assert house.slot(1).child is old

    assert house.children.ready(heir, 9.0) is old

    assert house.slot(1).child is heir
    assert house.slot(1).leavers == [old]
    assert heir.generation == old.generation + 1


def test_an_heir_that_fails_leaves_the_old_one_in_its_place() -> None:
    house = House()
    old = house.ready(1)
    heir = house.bear(1, as_heir=True)

    house.children.gone(heir)

    assert (house.slot(1).child, house.slot(1).heir, house.slot(1).needs_birth) == (old, None, False)


def test_if_the_old_one_goes_first_its_heir_is_the_child() -> None:
    house = House()
    old = house.ready(1)
    heir = house.bear(1, as_heir=True)

    house.children.gone(old)

    assert (house.slot(1).child, house.slot(1).heir) == (heir, None)
    assert house.children.ready(heir, 2.0) is None


def test_the_surplus_are_empty_places_then_booting_then_idle_then_busy() -> None:
    house = House(4)
    busy = house.ready(1)
    busy.record.lanes[0].state.write(Phase.STARTED, 1, bytes(16), 0.0, 0.0, 0, b"t", b"q")
    house.ready(2)
    house.bear(3)

    order = [slot.number for slot in least_needed_first(house.children.workers())]

    assert order == [4, 3, 2, 1]


def test_letting_go_keeps_the_place_until_its_last_process_is_gone() -> None:
    house = House(2)
    child = house.ready(2)
    house.ready(1)

    (surplus,) = house.children.want(spec(), 1)
    assert surplus.number == 2
    assert house.children.let_go(surplus) == [child]
    assert [slot.number for slot in house.children.workers()] == [1]
    assert 2 in house.children.slots

    house.children.gone(child)
    assert 2 not in house.children.slots


def test_an_empty_place_that_is_let_go_is_forgotten_at_once() -> None:
    house = House(2)

    for slot in house.children.want(spec(), 0):
        assert house.children.let_go(slot) == []

    assert house.children.slots == {}


def test_a_slot_number_that_comes_again_goes_on_counting_generations() -> None:
    house = House(1)
    first = house.ready(1)
    house.children.let_go(house.slot(1))
    house.children.gone(first)
    house.children.want(spec(), 1)

    assert house.bear(1).generation == first.generation + 1


def test_a_new_place_takes_no_number_of_one_that_is_leaving() -> None:
    house = House(1)
    house.ready(1)
    house.children.let_go(house.slot(1))

    house.children.want(spec(), 1)

    assert [slot.number for slot in house.children.workers()] == [2]


def test_a_group_that_is_forgotten_gives_up_its_places() -> None:
    house = House(1)
    house.children.want(spec("bulk"), 2)

    slots = house.children.forget_group((Role.WORKER, "bulk"))

    assert [slot.group for slot in slots] == ["bulk", "bulk"]
    assert list(house.children.groups) == [(Role.WORKER, "workers")]


def test_an_exit_says_no_more_than_is_known() -> None:
    def sentence(**facts: object) -> str:
        known = {"pid": 1, "signal": None, "code": None, "at": 0.0, "lived_s": 1.0, **facts}
        return LastExit(**known).sentence  # type: ignore[arg-type]

    assert sentence(code=0) == "exit code 0"
    assert sentence(signal=9) == "signal 9, not sent by jobpool"
    assert sentence(signal=9, oom=True) == "signal 9, not sent by jobpool (the kernel ran out of memory)"
    assert sentence(signal=9, ordered=Ordered.TIMEOUT) == "signal 9, sent by jobpool (timeout)"
    assert sentence(signal=15, planned=True) == "signal 15"
