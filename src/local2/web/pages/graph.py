"""Graph: things and memories and how they are related, opened step by step by clicking."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from nicegui import ui
from nicegui.events import EChartPointClickEventArguments

from local2.protocol.graph import GraphEdge, GraphNode, ShowGraph
from local2.protocol.services import GRAPH
from local2.web.pages.frame import Viewer, counted, empty, notify, section, set_address, text
from local2.web.pages.memory_drawer import open_memory

MAX_NODES = 300
"""Maximum number of nodes: more of them are a thicket."""
MAX_NAMED_EDGES = 12
"""Maximum number of relations that are named in the picture; of more, those of the node under the
pointer are, and the list names all."""
NAME_CHARACTERS = 28
"""Maximum characters of a name in the picture."""
COLOURS = {"thing": "#1a9384", "memory": "#98918a"}
LINES = "#98918a"
"""What is no text has colours that are seen in light and dark; `page.css` colours the text."""


async def show(viewer: Viewer) -> None:
    await GraphPage(viewer).show()


class GraphPage:
    """What one viewer has opened of the graph so far."""

    def __init__(self, viewer: Viewer) -> None:
        self._viewer = viewer
        self._thing = viewer.query.get("thing", "")
        self._id = viewer.query.get("id", "")
        self._nodes: dict[str, GraphNode] = {}
        self._edges: dict[GraphEdge, None] = {}

    async def show(self) -> None:
        with ui.element("div").classes("filters"):
            entry = ui.input("Around a thing or person", value=self._thing)
            entry.props("outlined dense clearable data-search")

            async def begin() -> None:
                await self._begin(thing=(entry.value or "").strip())

            entry.on("keydown.enter", begin)
        self._place = ui.element("div").classes("page-content")
        await self._begin(thing=self._thing, id_=self._id)

    async def _begin(self, *, thing: str = "", id_: str = "") -> None:
        """Begin anew around a thing, a memory, or what was stated last."""
        set_address(thing=thing, id=id_)
        self._nodes, self._edges = {}, {}
        await self._open(ShowGraph(thing=thing or None, id=id_ or None))

    async def _open(self, wanted: ShowGraph) -> None:
        """Add what is around a node to what is shown."""
        found = await self._viewer.calls.ask_service(GRAPH, wanted)
        new = [node for node in found.nodes if node.key not in self._nodes]
        room = MAX_NODES - len(self._nodes)
        self._nodes |= {node.key: node for node in new[:room]}
        self._edges |= {
            edge: None
            for edge in found.edges
            if edge.source in self._nodes and edge.target in self._nodes
        }
        if len(new) > room:
            notify(f"A picture has {MAX_NODES} nodes at most. Begin anew around one of them.")
        self._place.clear()
        with self._place:
            if not self._nodes and wanted.thing is not None:
                empty("o_hub", f"No fact names {wanted.thing}.", "Look for another name.")
                return
            if not self._nodes:
                empty(
                    "o_hub",
                    "There are no things yet.",
                    "Agents state how things are related (add_knowledge), and knowledge: true in "
                    "config/generator.yaml extracts it from conversations.",
                )
                return
            picture = ui.echart(self._options(), on_point_click=self._click, renderer="svg")
            picture.classes("graph")
            picture.props('role=img aria-label="The graph; the list below can be read and used."')
            hint = (
                f"{counted(len(self._nodes), 'node')} and {counted(len(self._edges), 'relation')}: "
                "click a node, here or in the picture, to see what is around it."
            )
            center = wanted.thing
            if wanted.id is not None:
                center = next((node.name for node in found.nodes if node.id == wanted.id), None)
            with section(f"Around {_cut(center)}" if center else "Stated last", hint):
                self._show_list([edge for edge in found.edges if edge in self._edges])

    def _options(self) -> dict[str, Any]:
        nodes = [
            {
                "id": node.key,
                "name": _cut(node.name),
                "symbolSize": 22 if node.kind == "thing" else 12,
                "itemStyle": {"color": COLOURS[node.kind]},
            }
            for node in self._nodes.values()
        ]
        links = [
            {
                "source": edge.source,
                "target": edge.target,
                "label": {"formatter": _cut(edge.label)},
            }
            for edge in self._edges
        ]
        few = len(links) <= MAX_NAMED_EDGES
        return {
            "tooltip": {"show": False},
            "animation": False,
            "series": [
                {
                    "type": "graph",
                    "layout": "force",
                    "roam": True,
                    "draggable": True,
                    "label": {"show": True, "position": "bottom"},
                    "labelLayout": {"hideOverlap": not few},  # a relation's name may cross a node's
                    "edgeLabel": {"show": few},
                    "emphasis": {
                        "focus": "adjacency",
                        "label": {"show": True},
                        "edgeLabel": {"show": True},
                    },
                    "lineStyle": {"color": LINES, "opacity": 1},  # its label is as opaque
                    "edgeSymbol": ["none", "arrow"],
                    "edgeSymbolSize": 7,
                    "force": {"repulsion": 300, "edgeLength": 110, "gravity": 0.2},
                    "zoom": 0.8,  # room for names at the edges
                    "data": nodes,
                    "links": links,
                }
            ],
        }

    async def _click(self, event: EChartPointClickEventArguments) -> None:
        if event.data_type == "node":
            await self._expand(list(self._nodes.values())[event.data_index])

    async def _expand(self, node: GraphNode) -> None:
        if node.id is not None:
            await self._open(ShowGraph(id=node.id))
        else:
            await self._open(ShowGraph(thing=node.name))

    def _show_list(self, edges: Sequence[GraphEdge]) -> None:
        with ui.element("ul").classes("edges"):
            for edge in edges:
                with ui.element("li"):
                    for key in (edge.source, edge.target):
                        node = self._nodes[key]
                        opening = text("button", _cut(node.name)).props("type=button")
                        opening.classes("plain-text node")
                        opening.on("click", partial(self._expand, node))
                        if key == edge.source:
                            text("span", edge.label).classes("quiet")
                    memory = edge.id or self._nodes[edge.source].id
                    if memory is not None:
                        button = ui.button("Open", on_click=partial(self._open_memory, memory))
                        button.props("flat dense")

    async def _open_memory(self, id_: str) -> None:
        async def begin_again() -> None:
            await self._begin(thing=self._thing, id_=self._id)

        await open_memory(self._viewer, id_, begin_again)


def _cut(name: str) -> str:
    """The beginning of a name, which stays on one line."""
    line = " ".join(name.split())
    return line if len(line) <= NAME_CHARACTERS else f"{line[: NAME_CHARACTERS - 1]}…"
