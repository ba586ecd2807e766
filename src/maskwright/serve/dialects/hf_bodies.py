"""Request bodies of Hugging Face's InferenceClient."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from .routing import Body, Text, Texts
from .tei_bodies import Compared

MOST_BEAMS = 16


class PipelineBody(Body):
    """What all bodies have in common. options: of the hosted service, without effect here."""

    options: dict[str, Any] | None = None


class FillMaskParameters(Body):
    """top_k: predictions for each mask; targets: rank only these words."""

    top_k: Annotated[int, Field(ge=1, le=1000)] | None = None
    targets: Annotated[list[str], Field(min_length=1, max_length=100)] | None = None


class FillMaskBody(PipelineBody):
    """inputs: a text with a mask, or a list."""

    inputs: Texts
    parameters: FillMaskParameters = FillMaskParameters()


class TagParameters(Body):
    """aggregation_strategy: entities are always of whole words."""

    aggregation_strategy: str | None = None
    ignore_labels: list[str] | None = None
    stride: int | None = None


class TagBody(PipelineBody):
    """inputs: a text or a list."""

    inputs: Texts
    parameters: TagParameters = TagParameters()


class QuestionInContext(Body):
    """A question, and the text that may have its answer."""

    question: Text
    context: Text


class AnswerParameters(Body):
    """top_k: answers; the others of the hosted service are fixed here."""

    top_k: Annotated[int, Field(ge=1, le=20)] | None = None
    align_to_words: bool | None = None
    doc_stride: int | None = None
    handle_impossible_answer: bool | None = None
    max_answer_len: int | None = None
    max_question_len: int | None = None
    max_seq_len: int | None = None


class AnswerBody(PipelineBody):
    """inputs: a question with its context, or a list."""

    inputs: QuestionInContext | list[QuestionInContext]
    parameters: AnswerParameters = AnswerParameters()


class GenerateParameters(Body):
    """do_sample: draw tokens; otherwise the most probable one is taken."""

    max_new_tokens: Annotated[int, Field(ge=1)] | None = None
    do_sample: bool = False
    temperature: Annotated[float, Field(gt=0, le=100)] | None = None
    top_k: Annotated[int, Field(ge=1)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    repetition_penalty: Annotated[float, Field(gt=0, le=10)] | None = None
    num_return_sequences: Annotated[int, Field(ge=1, le=16)] = 1
    seed: Annotated[int, Field(ge=0, lt=2**63)] | None = None
    stop: Annotated[list[str], Field(max_length=4)] | None = None
    return_full_text: bool | None = None
    details: bool | None = None
    decoder_input_details: bool | None = None
    best_of: None = None
    watermark: bool | None = None
    truncate: int | None = None
    typical_p: None = None
    top_n_tokens: int | None = None
    adapter_id: None = None
    frequency_penalty: None = None
    grammar: None = None


class GenerateBody(PipelineBody):
    """inputs: a prompt."""

    inputs: Text
    parameters: GenerateParameters = GenerateParameters()
    stream: bool = False


class TranslateParameters(Body):
    """tgt_lang: target language of a multilingual model; beams: of the search."""

    src_lang: str | None = None
    tgt_lang: str | None = None
    beams: Annotated[int, Field(ge=1, le=MOST_BEAMS)] | None = None
    max_new_tokens: Annotated[int, Field(ge=1)] | None = None
    clean_up_tokenization_spaces: bool | None = None
    truncation: str | None = None
    generate_parameters: dict[str, Any] | None = None


class TranslateBody(PipelineBody):
    """inputs: a text or a list."""

    inputs: Texts
    parameters: TranslateParameters = TranslateParameters()


class AttentionBody(PipelineBody):
    """layers, heads: numbers from 1, all by default."""

    inputs: Text
    layers: Annotated[list[int], Field(max_length=200)] | None = None
    heads: Annotated[list[int], Field(max_length=200)] | None = None


class ClassifyParameters(Body):
    """candidate_labels: classes without training; top_k: how many classes are returned."""

    top_k: Annotated[int, Field(ge=1, le=1000)] | None = None
    function_to_apply: str | None = None
    candidate_labels: Annotated[list[str], Field(min_length=2, max_length=100)] | None = None
    hypothesis_template: str | None = None
    multi_label: bool | None = None


class ClassifyBody(PipelineBody):
    """inputs: a text or a list."""

    inputs: Texts
    parameters: ClassifyParameters = ClassifyParameters()


class VectorsParameters(Body):
    """normalize: to length 1; as the folder declares by default."""

    normalize: bool | None = None
    prompt_name: None = None
    truncate: bool | None = None
    truncation_direction: str | None = None


class VectorsBody(PipelineBody):
    """inputs: a text or a list, or a sentence with others to compare it with."""

    inputs: Texts | Compared
    normalize: bool | None = None
    prompt_name: None = None
    truncate: bool | None = None
    truncation_direction: str | None = None
    parameters: VectorsParameters = VectorsParameters()


class AnyRequest(Body):
    """inputs and parameters as the kind of the model needs them."""

    inputs: Any
    parameters: dict[str, Any] | None = None
    options: dict[str, Any] | None = None
    stream: bool | None = None
    normalize: bool | None = None
    truncate: bool | None = None
    truncation_direction: str | None = None
    prompt_name: None = None
