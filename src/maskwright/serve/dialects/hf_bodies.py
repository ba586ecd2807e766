"""Request bodies of Hugging Face's InferenceClient: each of its parameters works or is refused with the reason.

docs/reference/http-parameters.md is written from the descriptions here.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from ...inference.zero_shot import TEMPLATE
from .routing import Body, Text, Texts, Unsupported
from .tei_bodies import Dimensions, Direction, PromptName, SimilarityBody, Truncate

MOST_BEAMS = 16

TopK = Annotated[int | None, Field(ge=1, le=1000)]


class Options(Body):
    """What older clients send; both change nothing, because nothing is cached and a loading server answers 503."""

    use_cache: Annotated[bool | None, Field(description="Changes nothing: no answer is cached.")] = None
    wait_for_model: Annotated[bool | None, Field(description="Changes nothing: 503 until the models are loaded.")] = (
        None
    )


class PipelineBody(Body):
    """What all bodies have in common."""

    options: Options | None = None


class FillMaskParameters(Body):
    """Parameters of fill_mask."""

    top_k: Annotated[TopK, Field(description="Predictions for each mask; 5, or all targets.")] = None
    targets: Annotated[
        list[str] | None,
        Field(min_length=1, max_length=100, description="Rank only these words, each one token of the vocabulary."),
    ] = None


class FillMaskBody(PipelineBody):
    """inputs: a text with a mask, or a list."""

    inputs: Texts
    parameters: FillMaskParameters = FillMaskParameters()


class TagParameters(Body):
    """Parameters of token_classification."""

    aggregation_strategy: Annotated[
        Literal["none", "simple", "first", "average", "max"] | None,
        Field(
            description="As the pipelines of transformers: none gives every token. By default, words as in training: "
            "tagged at their first token. No CRF."
        ),
    ] = None
    ignore_labels: Annotated[
        list[str] | None,
        Field(
            max_length=1000,
            description="Types that are left out, with none tags; O. Without O, words are as with first.",
        ),
    ] = None
    stride: Annotated[
        int | None,
        Field(
            ge=0, description="Tokens that windows of a long text share; a quarter. Words are as with first. No CRF."
        ),
    ] = None


class TagBody(PipelineBody):
    """inputs: a text or a list."""

    inputs: Texts
    parameters: TagParameters = TagParameters()


class QuestionInContext(Body):
    """A question, and the text that may have its answer."""

    question: Text
    context: Text


class AnswerParameters(Body):
    """Parameters of question_answering."""

    top_k: Annotated[int | None, Field(ge=1, le=20, description="Answers; above 1 the reply is a list.")] = None
    align_to_words: Annotated[bool | None, Field(description="Whether answers are whole words; true.")] = None
    doc_stride: Annotated[
        int | None, Field(ge=0, description="Tokens that windows of a long context share; a third, at most 128.")
    ] = None
    handle_impossible_answer: Annotated[
        bool | None,
        Field(description="Whether the answer may be empty, by the threshold of the model; as it was trained."),
    ] = None
    max_answer_len: Annotated[int | None, Field(ge=1, le=10_000, description="Longest answer in tokens; 30.")] = None
    max_question_len: Annotated[int | None, Field(ge=1, description="Longer questions are truncated; 64.")] = None
    max_seq_len: Annotated[int | None, Field(ge=1, description="Tokens of a window; as in training.")] = None


class AnswerBody(PipelineBody):
    """inputs: a question with its context, or a list."""

    inputs: QuestionInContext | list[QuestionInContext]
    parameters: AnswerParameters = AnswerParameters()


class GenerateParameters(Body):
    """Parameters of text_generation."""

    max_new_tokens: Annotated[int | None, Field(ge=1, description="Longest continuation; 50.")] = None
    do_sample: Annotated[
        bool | None,
        Field(
            description="Whether tokens are drawn; by default if temperature, top_k or top_p is given, otherwise the "
            "most probable one is taken."
        ),
    ] = None
    temperature: Annotated[float | None, Field(gt=0, le=100, description="Divisor of the logits; 1.")] = None
    top_k: Annotated[int | None, Field(ge=1, description="Draws from so many tokens.")] = None
    top_p: Annotated[float | None, Field(gt=0, le=1, description="Draws from tokens of this probability.")] = None
    repetition_penalty: Annotated[
        float | None, Field(gt=0, le=10, description="Above 1, tokens that were there are less probable.")
    ] = None
    num_return_sequences: Annotated[int, Field(ge=1, le=16, description="Continuations of the prompt.")] = 1
    seed: Annotated[int | None, Field(ge=0, lt=2**63, description="Of what is drawn; another one each time.")] = None
    stop: Annotated[list[str] | None, Field(max_length=4, description="Texts that end the continuation.")] = None
    return_full_text: Annotated[bool | None, Field(description="Whether the prompt comes first; false.")] = None
    details: Annotated[bool | None, Field(description="Only with stream, whose last event has them.")] = None
    adapter_id: Annotated[Any, Unsupported("serve the adapter as a model of its own")] = None
    best_of: Annotated[Any, Unsupported("use num_return_sequences", 1)] = None
    decoder_input_details: Annotated[Any, Unsupported("/tokenize gives the tokens of a prompt", False)] = None
    frequency_penalty: Annotated[Any, Unsupported("use repetition_penalty", 0, 0.0)] = None
    grammar: Annotated[Any, Unsupported("nothing constrains the text")] = None
    top_n_tokens: Annotated[Any, Unsupported("no other tokens are returned", 0)] = None
    truncate: Annotated[Any, Unsupported("a longer prompt keeps its last tokens")] = None
    typical_p: Annotated[Any, Unsupported("use top_p", 1, 1.0)] = None
    watermark: Annotated[Any, Unsupported("no watermark is written", False)] = None


class GenerateBody(PipelineBody):
    """inputs: a prompt."""

    inputs: Text
    parameters: GenerateParameters = GenerateParameters()
    stream: bool = False


class SearchParameters(Body):
    """What translation and summarization have in generate_parameters."""

    num_beams: Annotated[int | None, Field(ge=1, le=MOST_BEAMS)] = None
    length_penalty: Annotated[float | None, Field(ge=-10, le=10)] = None
    max_new_tokens: Annotated[int | None, Field(ge=1)] = None


class TranslateParameters(Body):
    """Parameters of translation and summarization."""

    src_lang: Annotated[
        str | None,
        Field(description="Only with tgt_lang, as the client sends it; models here read each of their languages."),
    ] = None
    tgt_lang: Annotated[str | None, Field(description="Target language of a multilingual model.")] = None
    clean_up_tokenization_spaces: Annotated[
        Any, Unsupported("texts are written as the tokenizer of the model decodes them", False)
    ] = None
    truncation: Annotated[
        Literal["longest_first", "only_first", "do_not_truncate"] | None,
        Field(description="do_not_truncate refuses a longer text (413), as it is truncated otherwise."),
    ] = None
    generate_parameters: Annotated[
        SearchParameters | None, Field(description="num_beams, length_penalty, max_new_tokens.")
    ] = None
    beams: Annotated[int | None, Field(ge=1, le=MOST_BEAMS, description="As num_beams.")] = None
    max_new_tokens: Annotated[int | None, Field(ge=1, description="As in generate_parameters.")] = None


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
    """Parameters of text_classification."""

    top_k: Annotated[TopK, Field(description="Classes that are returned; all.")] = None
    function_to_apply: Annotated[
        Literal["softmax", "sigmoid", "none"] | None,
        Field(
            description="From the outputs to the scores; by default softmax of single classes, sigmoid of several, "
            "none of a number."
        ),
    ] = None


class ClassifyBody(PipelineBody):
    """inputs: a text or a list."""

    inputs: Texts
    parameters: ClassifyParameters = ClassifyParameters()


class ZeroShotParameters(Body):
    """Parameters of zero_shot_classification."""

    candidate_labels: Annotated[list[str], Field(min_length=2, max_length=100, description="Classes, by any names.")]
    hypothesis_template: Annotated[
        str, Field(max_length=1000, description=f"Sentence with {{}} for the class; {TEMPLATE}")
    ] = TEMPLATE
    multi_label: Annotated[
        bool | None,
        Field(
            description="Whether each class is scored by itself; needs a model with the class entailment. The scores "
            "of an encoder are similarities."
        ),
    ] = None


class ZeroShotBody(PipelineBody):
    """inputs: a text or a list."""

    inputs: Texts
    parameters: ZeroShotParameters


class VectorsBody(PipelineBody):
    """Parameters of feature_extraction, which the client sends beside the inputs: a text or a list."""

    inputs: Texts
    normalize: Annotated[bool | None, Field(description="To length 1; as the folder declares.")] = None
    prompt_name: PromptName = None
    truncate: Truncate = True
    truncation_direction: Direction = "right"
    dimensions: Dimensions = None
    encoding_format: Annotated[
        Any,
        Unsupported("the client reads numbers only; /v1/embeddings writes base64", "float"),
        Field(description="Numbers."),
    ] = None


class AnyRequest(Body):
    """inputs and parameters as the kind of the model needs them."""

    model_config = ConfigDict(extra="allow")

    inputs: Any
    parameters: dict[str, Any] | None = None


class RootBody(AnyRequest):
    """inputs and parameters as the kind of the first model needs them, or what /rerank takes."""

    inputs: Any = None


# Parameters of the methods of InferenceClient.
METHODS: dict[str, type[Body]] = {
    "feature_extraction": VectorsBody,
    "fill_mask": FillMaskParameters,
    "question_answering": AnswerParameters,
    "sentence_similarity": SimilarityBody,
    "text_classification": ClassifyParameters,
    "text_generation": GenerateParameters,
    "token_classification": TagParameters,
    "translation": TranslateParameters,
    "summarization": TranslateParameters,
    "zero_shot_classification": ZeroShotParameters,
}
