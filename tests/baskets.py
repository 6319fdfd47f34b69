"""What tests ask models for: a basket of fruit, from a text."""

from typing import Literal

from msgspec import Struct

from local2.llm.models import StructuredModel


class Fruit(Struct, frozen=True):
    name: str
    ripe: Literal["yes", "no"]
    colour: str | None = None


class Basket(Struct, frozen=True):
    fruits: list[Fruit]


class Material(Struct, frozen=True):
    text: str


BASKET = Basket(fruits=[Fruit(name="apple", ripe="yes")])


async def list_fruits(
    model: StructuredModel, text: str = "An apple.", *, within: float = 10
) -> Basket:
    return await model.answer_as(
        Basket, instruction="List the fruits.", material=Material(text), within=within
    )
