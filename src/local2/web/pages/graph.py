"""Graph: things and memories and how they are related, opened step by step by clicking."""

from collections.abc import Sequence
from functools import partial

from nicegui import ui
from nicegui.element import Element
from nicegui.events import GenericEventArguments

from local2.protocol.graph import GraphEdge, GraphNode, ShowGraph
from local2.protocol.services import GRAPH
from local2.web.pages.frame import Viewer, counted, empty, notify, opener, section, stay, text
from local2.web.pages.memory_drawer import open_memory

MAX_NODES = 300
"""Maximum number of nodes: more of them are a thicket."""
MAX_NAMED_EDGES = 12
"""Maximum number of relations that are named in the picture, with all nodes; of more, those of the
node under the pointer are, and the list names all."""
FOCUS_ON_LIST = (
    "setTimeout(() => document.querySelector('.edges .node')?.focus({preventScroll: true}))"
)
NAME_CHARACTERS = 28
"""Maximum characters of a name in the picture."""


async def show(viewer: Viewer) -> None:
    await GraphPage(viewer).show()
    viewer.on_return = stay


class Picture(Element, component="assets/graph.js"):
    """Nodes and the lines between them; a click on a node emits `open` with its key."""

    def __init__(self) -> None:
        super().__init__()
        self.props["label"] = "The graph; the list below can be read and used."
        self.show((), ())

    def show(self, nodes: Sequence[GraphNode], edges: Sequence[GraphEdge]) -> None:
        """Show these; nodes that were there before stay about where they are."""
        self.props["is-few"] = len(edges) <= MAX_NAMED_EDGES
        self.props["edges"] = [
            {"source": edge.source, "target": edge.target, "label": _cut(edge.label)}
            for edge in edges
        ]
        self.props["nodes"] = [
            {"key": node.key, "kind": node.kind, "name": _cut(node.name), "whole": node.name}
            for node in nodes
        ]


class GraphPage:
    """What one viewer has opened of the graph so far."""

    def __init__(self, viewer: Viewer) -> None:
        self._user = None if viewer.has_accounts else viewer.query.get("user")
        self._viewer = viewer.looking_as(self._user)
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
        self._picture = Picture()
        self._picture.on("open", self._click)
        self._place = ui.element("div").classes("page-content")
        await self._begin(thing=self._thing, id_=self._id)

    async def _begin(self, *, thing: str = "", id_: str = "") -> None:
        """Begin anew around a thing, a memory, or what was stated last."""
        self._viewer.set_address(thing=thing, id=id_, user=self._user)
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
        self._picture.visible = bool(self._nodes)
        self._picture.show(list(self._nodes.values()), list(self._edges))
        self._place.clear()
        with self._place:
            if not self._nodes and wanted.thing is not None:
                empty("o_hub", f"No fact names {wanted.thing}.", "Look for another name.")
                return
            if not self._nodes:
                empty(
                    "o_hub",
                    "There are no things yet.",
                    "Agents state how things are related (`add_knowledge`), and `knowledge: true` "
                    "in `config/generator.yaml` extracts it from conversations.",
                )
                return
            hint = (
                f"{counted(len(self._nodes), 'node')} and {counted(len(self._edges), 'relation')}: "
                "click a node, here or in the picture, to see what is around it."
            )
            center = wanted.thing
            if wanted.id is not None:
                center = next((node.name for node in found.nodes if node.id == wanted.id), None)
            with section(f"Around {_cut(center)}" if center else "Stated last", hint):
                if any(node.kind == "memory" for node in self._nodes.values()):
                    legend = ui.element("div").classes("row-of legend quiet")
                    with legend.props("aria-hidden=true"):
                        for kind, says in (("thing", "a thing or person"), ("memory", "a memory")):
                            with ui.element("span"):
                                ui.element("i").classes(kind)
                                text("span", says)
                self._show_list([edge for edge in found.edges if edge in self._edges])

    async def _click(self, event: GenericEventArguments) -> None:
        await self._expand(self._nodes[event.args])

    async def _expand(self, node: GraphNode) -> None:
        if node.id is not None:
            await self._open(ShowGraph(id=node.id))
        else:
            await self._open(ShowGraph(thing=node.name))

    async def _expand_in_list(self, node: GraphNode) -> None:
        """Expand a node whose button had the focus, which goes on to what is around the node."""
        await self._expand(node)
        with self._place:
            ui.run_javascript(FOCUS_ON_LIST)

    def _show_list(self, edges: Sequence[GraphEdge]) -> None:
        with ui.element("ul").classes("edges"):
            for edge in edges:
                with ui.element("li"):
                    for key in (edge.source, edge.target):
                        node = self._nodes[key]
                        opener(_cut(node.name), "node", partial(self._expand_in_list, node))
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
