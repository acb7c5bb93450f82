"""A window of shuffled records, and an epoch of it that the program ends early."""

import pytest
from hosts import channel, rows, start, take, take_all, write_files

__all__ = ["start"]

COUNT = 200


# With the larger window, all records are in it when the epoch is ended: none is left to decode.
@pytest.mark.parametrize("window, workers", [(50, 1), (1000, 1), (1000, 3)])
def test_an_epoch_is_ended_inside_of_a_window(start, tmp_path, window, workers):
    write_files(tmp_path, [COUNT // 2, COUNT // 2])
    # More of the epoch is in the window and in the file than in the slots.
    config = channel(
        tmp_path,
        f"batch = 4\nworkers = {workers}\nshuffle = {{ seed = 7, window = {window} }}\n"
        "[channel.ring]\nslots = 4",
        epochs=3,
    )
    whole = start(config)
    with whole.connect() as stream:
        expected = take_all(stream)
    whole.end()
    of_epoch = [[batch[2] for batch in expected if batch[0] == epoch] for epoch in range(3)]
    for epoch in of_epoch:
        assert sorted(row for batch in epoch for row in batch) == rows(COUNT)
    assert of_epoch[0] != of_epoch[1]

    host = start(config)
    with host.connect() as stream:
        epochs = stream.epochs()
        first = next(epochs)
        for number in range(3):
            batch = next(first)
            assert list(batch.records()) == of_epoch[0][number]
            batch.ack()
        del batch
        inside = stream.state_dict()
        first.end()
        rest = [list(batch.records()) for batch in first]
        assert rest == of_epoch[0][3 : 3 + len(rest)] and len(rest) < len(of_epoch[0]) - 3
        assert first.ended_early
        after = stream.state_dict()
        # The next epoch is whole, and its order is its own.
        assert [list(batch.records()) for batch in next(epochs)] == of_epoch[1]
    host.kill()

    for state, remains in [(inside, of_epoch[0][3:] + of_epoch[1]), (after, of_epoch[1])]:
        host = start(config)
        with host.connect(state=state) as stream:
            assert [take(stream)[2] for _ in remains] == remains
            assert [batch[2] for batch in take_all(stream)] == of_epoch[2]
        host.end()
