"""similarity, search and cluster on the command line: only JSON on standard output, pictures, error messages."""

import json
from xml.etree import ElementTree

import pytest

from inference.samples import tiny

HOSTILE = 'the cat <script>alert(1)</script> & "the" mat \x1b[31m'


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "bare"
    tiny().save(folder)
    return folder


@pytest.fixture
def texts(tmp_path):
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.txt").write_text("the cat sat on the mat .\n\nrain fell\n", encoding="utf-8")
    (tmp_path / "texts" / "b.txt").write_text(HOSTILE + "\n", encoding="utf-8")
    return tmp_path / "texts"


# -- sparse embeddings ---------------------------------------------------------------------------------------------


def test_sparse_embeddings_as_json_lines_and_as_a_matrix(maskwright, refused, tmp_path):
    from scipy.sparse import load_npz

    tiny("mlm").save(tmp_path / "mlm")
    code, out, _ = maskwright("embed", tmp_path / "mlm", "--sparse", "the cat sat", "rain fell", "--json")
    rows = [json.loads(line) for line in out.splitlines()]
    assert code == 0 and [row["text"] for row in rows] == ["the cat sat", "rain fell"]
    lines = tmp_path / "in.txt"
    lines.write_text("the cat sat\nrain fell\n", encoding="utf-8")
    assert maskwright("embed", tmp_path / "mlm", "--sparse", "--input", lines, "-o", tmp_path / "w.npz")[0] == 0
    matrix = load_npz(tmp_path / "w.npz")
    for row, wanted in zip(matrix, rows, strict=True):
        assert row.indices.tolist() == wanted["indices"] and row.data.tolist() == pytest.approx(wanted["values"])
    for words, message in ((("--pooling", "mean"), "--sparse excludes"), (("-o", tmp_path / "w.npy"), ".npz")):
        refused(message, "embed", tmp_path / "mlm", "--sparse", "the cat", *words)


# -- similarity ----------------------------------------------------------------------------------------------------


def test_similarity_of_a_word_as_json_table_and_picture(as_json, maskwright, model, tmp_path):
    asked = ("embed", model, "--matrix", "--word", "cat", "the cat sat", HOSTILE)
    found = as_json(*asked, "-o", tmp_path / "m.svg")
    assert found["matrix"][0][0] == found["matrix"][1][1] == 1.0 and found["matrix"][0][1] == found["matrix"][1][0]
    assert found["static_matrix"] == [[1.0, pytest.approx(1.0)], [pytest.approx(1.0), 1.0]]
    assert [(place["start"], place["end"]) for place in found["places"]] == [(4, 7), (4, 7)]
    picture = ElementTree.parse(tmp_path / "m.svg").getroot()
    assert picture.tag.endswith("svg") and f"{found['matrix'][0][1]:.2f}" in "".join(picture.itertext())
    assert "<script" not in (tmp_path / "m.svg").read_text(encoding="utf-8")
    code, out, _ = maskwright(*asked)
    assert code == 0 and "in the embedding table: 1.000 everywhere" in out and "[cat]" in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "Pass either texts or --input"),
        (["a", "-o", "m.jpg"], "written as .svg, .png or .html"),
        (["--word", "tree", "a", "the"], "'tree' is not in 'a'"),
        (["a", "--layers", "99"], "is out of range"),
    ],
)
def test_similarity_refuses_in_a_sentence(refused, model, words, message):
    refused(message, "embed", model, "--matrix", *words)


# -- search --------------------------------------------------------------------------------------------------------


def test_search_answers_several_queries_as_json_lines_and_keeps_an_index(maskwright, model, texts, tmp_path):
    asked = ("search", model, texts, "rain fell", "the cat", "--index", tmp_path / "index", "--top-k", "2", "--json")
    code, out, err = maskwright(*asked)
    lines = [json.loads(line) for line in out.splitlines()]
    assert code == 0 and "2 files embedded" in err
    assert [line["query"] for line in lines] == ["rain fell", "the cat"]
    best = lines[0]["results"][0]
    assert (best["rank"], best["text"], best["line"], best["start"], best["end"]) == (1, "rain fell", 3, 26, 35)
    code, again, err = maskwright(*asked)
    assert "0 files embedded, 2 unchanged" in err and again == out


def test_search_shows_passages_without_obeying_them(maskwright, model, texts):
    code, out, _ = maskwright("search", model, texts, "the cat")
    assert code == 0 and "\x1b" not in out
    assert "b.txt:1" in out and "»" in out and "characters 0-24" in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["{texts}"], "Pass either queries or --input"),
        (["{texts}", "a", "--columns", "label=x"], "one column"),
        (["nowhere", "a"], "does not exist"),
    ],
)
def test_search_refuses_in_a_sentence(refused, model, texts, words, message):
    refused(message, "search", model, *(word.format(texts=texts) for word in words))


# -- cluster -------------------------------------------------------------------------------------------------------


@pytest.fixture
def lines(tmp_path):
    topics = ["the cat sat on the mat", "dogs chase cats", "rain fell", HOSTILE]
    text = "\n".join(f"{topics[n % 4]} {'a' * (n % 5)}" for n in range(24))
    (tmp_path / "lines.txt").write_text(text + "\n", encoding="utf-8")
    return tmp_path / "lines.txt"


def test_cluster_writes_a_table_facts_and_a_page(as_json, maskwright, refused, model, lines, tmp_path):
    asked = ("embed", model, "--input", lines, "--clusters", "3", "-o", tmp_path / "out", "--seed", "1")
    found = as_json(*asked)
    assert [len(found["clusters"]), found["texts"]] == [3, 24]
    table = [line.split("\t") for line in (tmp_path / "out" / "clusters.tsv").read_text().splitlines()]
    assert table[0] == ["cluster", "cosine", "text"] and len(table) == 25 and all(len(row) == 3 for row in table)
    sizes = [sum(row[0] == str(number) for row in table[1:]) for number in (1, 2, 3)]
    assert sizes == [own["size"] for own in found["clusters"]]
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "Text embeddings" in page and "<script>alert" not in page
    refused("--restart", *asked)
    code, out, _ = maskwright(*asked, "--restart")
    assert code == 0 and "clusters.tsv" in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "--input"),
        (["--input", "{lines}", "--clusters", "many"], "takes a number"),
        (["--input", "{lines}", "--clusters", "500"], "do not fit"),
        (["--input", "{lines}", "-o", "{folder}"], "contains no clusters"),
    ],
)
def test_cluster_refuses_in_a_sentence(refused, model, lines, tmp_path, words, message):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("work", encoding="utf-8")
    words = [word.format(lines=lines, folder=tmp_path / "mine") for word in words]
    refused(message, "embed", model, "--clusters", "auto", *words)
    assert (tmp_path / "mine" / "thesis.txt").exists()
