"""How a model of ours is held against transformers': outputs, layers, attention maps, loss, every gradient."""

import math

import torch

from maskwright.hub.family import family_named

VIEWS = {"output_hidden_states": True, "output_attentions": True}
OF_TOKENS = ("last_hidden_state", "prediction_logits", "start_logits", "end_logits")
TOKEN_LOGITS = ("mlm", "clm", "tagging", "rtd")


def largest(ours, theirs, mask=None):
    """The largest difference, on kept tokens alone if a mask is given; nan counts as infinite."""
    assert ours.shape == theirs.shape, (ours.shape, theirs.shape)
    difference = (ours - theirs).abs()
    if mask is not None:
        difference = difference[mask.bool()]
    result = float(difference.detach().max())
    return float("inf") if math.isnan(result) else result


def compare_outputs(ours, theirs, rows, head):
    """Differences of every field of transformers' output, all of which must be there."""
    mask = rows["attention_mask"]
    flat = mask.reshape(-1, mask.shape[-1])
    found = {}
    for name, value in theirs.items():
        if name in ("past_key_values", "global_attentions") or (isinstance(value, tuple) and not value):
            continue  # a cache, what `longformer_maps` includes, and cross attentions of an encoder
        if name in ("hidden_states", "attentions"):
            mine = ours[name]
            assert len(mine) == len(value), name
            turn = (lambda x: x.transpose(1, 2)) if name == "attentions" else (lambda x: x)  # rows of kept queries
            is_whole = name == "hidden_states" or value[0].shape == mine[0].shape
            expected = value if is_whole else longformer_maps(theirs, rows, head)
            for layer, (a, b) in enumerate(zip(mine, expected, strict=True)):
                found[f"{name}.{layer}"] = largest(turn(a), turn(b), flat)
        else:
            of_tokens = name in OF_TOKENS or (name == "logits" and head in TOKEN_LOGITS)
            found[name] = largest(ours[name], value, mask if of_tokens else None)
    return found


def longformer_maps(theirs, rows, head):
    """Attention maps [batch, heads, seq, seq] of transformers' windows, global keys and global queries."""
    mask = rows["attention_mask"].flatten(0, -2)
    batch, seq = mask.shape
    columns = torch.arange(seq)
    rules = {"qa": columns < 6, "choice": columns > 7}  # as `padded_rows` separates texts
    marks = rows.get("global_attention_mask", rules.get(head, columns == 0).expand(batch, seq)).bool() & mask.bool()
    most, maps = int(marks.sum(1).max()), []
    for near, far in zip(theirs.attentions, theirs.global_attentions, strict=True):
        half = (near.shape[-1] - most - 1) // 2
        found = near.new_zeros(batch, near.shape[1], seq, seq)
        for query in range(seq):
            keys = columns[max(0, query - half) : query + half + 1]
            found[:, :, query, keys] = near[:, :, query, most + keys - query + half]
        for row in range(batch):
            chosen = marks[row].nonzero()[:, 0]
            found[row, :, :, chosen] += near[row, :, :seq, : len(chosen)]
            found[row, :, chosen] = far[row, :, :seq, : len(chosen)].transpose(1, 2)
        maps.append(found)
    return maps


def their_outputs(theirs, rows, labels, head):
    """transformers' outputs; of a span the loss over the columns that the mask keeps."""
    out = theirs(**rows, **labels, **VIEWS)
    if head == "qa" and labels:
        dropped, seq = rows["attention_mask"] == 0, rows["attention_mask"].shape[1]
        logits = [one.masked_fill(dropped, torch.finfo(one.dtype).min) for one in (out.start_logits, out.end_logits)]
        columns = [labels[name].clamp(max=seq) for name in ("start_positions", "end_positions")]
        ignored = torch.nn.functional.pad(dropped, (0, 1))  # column `seq` counts for nothing
        columns = [one.masked_fill(ignored.gather(1, one[:, None])[:, 0], seq) for one in columns]
        both = zip(logits, columns, strict=True)
        out["loss"] = sum(torch.nn.functional.cross_entropy(*one, ignore_index=seq) for one in both) / 2
    return out


def total(output, rows):
    if getattr(output, "loss", None) is not None:
        return output.loss
    result = output.last_hidden_state[rows["attention_mask"].bool()].sin().sum()
    pooled = getattr(output, "pooler_output", None)
    return result if pooled is None else result + pooled.sum()


def compare_gradients(ours, theirs, name, head):
    """Differences of every parameter's gradient, under our name, in parts of the gradient's size where that is above 1.

    Both sides must have moved the same parameters.
    """
    family = family_named(name).sized(ours.config)
    stored = dict(theirs.named_parameters(remove_duplicate=False))  # a tied tensor has two names
    expected = {parameter: value.grad for parameter, value in stored.items()}
    decoder = family.decoder(head)
    found, seen = {}, set()
    for parameter, value in ours.named_parameters():
        names = family.stored_names(parameter, head)
        if decoder is not None and names == [decoder[2]] and expected.get(decoder[1]) is not None:
            names = [decoder[1]]
        gradients = [expected[one] for one in names]
        if any(one is None for one in gradients):  # a fixed position table
            assert value.grad is None or all("position_embeddings" in one for one in names), names  # or an idle pooler
        else:
            gradient = family.from_stored(parameter, torch.cat(gradients), tuple(value.shape))
            is_other = value.grad is None and ".adapters." in parameter  # of a language that is not used
            own = torch.zeros_like(value) if is_other else value.grad
            found[f"gradient of {parameter}"] = largest(own, gradient) / max(1.0, float(gradient.abs().max()))
        seen |= {id(stored[one]) for one in names}
    unseen = {one for one, value in stored.items() if id(value) not in seen and value.grad is not None}
    assert not unseen, unseen
    return found


def compare(ours, theirs, name, head, rows, labels):
    """Run both on the same rows with labels, backwards too: the largest difference of each output and gradient."""
    their_output = their_outputs(theirs, rows, labels, head)
    our_output = ours(**rows, **labels, **VIEWS)
    found = compare_outputs(our_output, their_output, rows, head)
    total(their_output, rows).backward()
    total(our_output, rows).backward()
    return found | compare_gradients(ours, theirs, name, head)
