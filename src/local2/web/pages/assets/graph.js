// The picture of a graph. It is laid out here, always in the same way: nodes repel each other, and
// relations hold them together. What is opened later comes beside what it was opened from.
const LENGTH = 100; // of a relation, in pixels before the picture is fitted into its frame
const ROUNDS = 300;
const MARGIN = { x: 70, y: 36 }; // for names at the edges
const LARGEST = 1.6; // scale of a picture of few nodes
const NAME_HEIGHT = 15;
const STEP = 1.3;

export default {
  template: `
    <div class="graph">
      <svg role="img" :aria-label="label" :class="{ near }" @wheel="wheel"
        @pointerdown="grip = $event" @pointermove="pan" @pointerup="grip = null"
        @pointerleave="grip = null">
        <defs>
          <marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7"
            orient="auto"><path d="M0 0 8 4 0 8z" /></marker>
        </defs>
        <path v-for="edge in lines" :d="edge.path" :class="{ lit: isLit(edge) }"
          class="edge" marker-end="url(#arrow)" />
        <g v-for="node in shown" :key="node.key" :class="[node.kind, { lit: lit.has(node.key) }]"
          class="node" @click="$emit('open', node.key)" @mouseenter="near = node.key"
          @mouseleave="near = null">
          <title>{{ node.whole }}</title>
          <circle :cx="node.x" :cy="node.y" :r="node.radius" />
        </g>
        <text v-for="node in named" :class="['name', { lit: lit.has(node.key) }]" :x="node.x"
          :y="node.y + node.radius + 12">{{ node.name }}</text>
        <text v-for="edge in lines.filter((line) => isFew || isLit(line))" :x="edge.x" :y="edge.y"
          class="relation">{{ edge.label }}</text>
      </svg>
      <div class="graph-zoom">
        <button type="button" class="row-action" aria-label="Larger" @click="zoom(${STEP})">+</button>
        <button type="button" class="row-action" aria-label="Smaller" @click="zoom(1 / ${STEP})">−</button>
        <button type="button" class="row-action" @click="fit">Whole</button>
      </div>
    </div>
  `,
  props: { nodes: Array, edges: Array, label: String, isFew: Boolean },
  data() {
    return { places: {}, view: { x: 0, y: 0, scale: 1 }, near: null, grip: null };
  },
  computed: {
    shown() {
      const degrees = {};
      for (const { source, target } of this.edges) {
        degrees[source] = (degrees[source] ?? 0) + 1;
        degrees[target] = (degrees[target] ?? 0) + 1;
      }
      return this.nodes
        .filter((node) => node.key in this.places)
        .map((node) => ({
          ...node,
          x: this.places[node.key].x * this.view.scale + this.view.x,
          y: this.places[node.key].y * this.view.scale + this.view.y,
          radius: Math.min(4 + 1.5 * Math.sqrt(degrees[node.key] ?? 0), 14),
        }));
    },
    lines() {
      const nodes = new Map(this.shown.map((node) => [node.key, node]));
      const labels = new Map(); // relations between the same two are one line
      for (const { source, target, label } of this.edges) {
        const ends = JSON.stringify([source, target]);
        labels.set(ends, [...(labels.get(ends) ?? []), label]);
      }
      const lines = [];
      for (const [ends, said] of labels) {
        const [source, target] = JSON.parse(ends);
        const [from, to] = [nodes.get(source), nodes.get(target)];
        if (from && to) lines.push({ source, target, label: said.join(", "), ...path(from, to) });
      }
      return lines;
    },
    lit() {
      const lit = new Set(this.near ? [this.near] : []);
      for (const { source, target } of this.edges) {
        if (source === this.near) lit.add(target);
        if (target === this.near) lit.add(source);
      }
      return lit;
    },
    named() {
      if (this.isFew) return this.shown;
      // The names of nodes with many relations first; a name that would cover another one waits
      // until somebody points at its node.
      const taken = [];
      const isNamed = (node) => {
        const half = this.pen.measureText(node.name).width / 2 + 1;
        const top = node.y + node.radius;
        const box = [node.x - half, node.x + half, top, top + NAME_HEIGHT];
        const isFree = !taken.some((other) => overlap(box, other));
        if (isFree) taken.push(box);
        return isFree || this.lit.has(node.key);
      };
      return [...this.shown].sort((one, other) => other.radius - one.radius).filter(isNamed);
    },
  },
  watch: {
    nodes: { handler: "lay", flush: "post" },
  },
  created() {
    this.pen = document.createElement("canvas").getContext("2d");
  },
  mounted() {
    const { fontSize, fontFamily } = getComputedStyle(this.$el);
    this.pen.font = `${fontSize} ${fontFamily}`;
    this.observer = new ResizeObserver(this.fit);
    this.observer.observe(this.$el);
    this.lay();
  },
  unmounted() {
    this.observer.disconnect();
  },
  methods: {
    isLit({ source, target }) {
      return this.near !== null && (source === this.near || target === this.near);
    },
    lay() {
      const { clientWidth: width, clientHeight: height } = this.$el;
      const aspect = height ? width / height : 1; // it is hidden while it has no nodes
      this.places = placed(this.nodes, this.edges, this.places, aspect);
      this.fit();
    },
    fit() {
      const { clientWidth: width, clientHeight: height } = this.$el;
      const places = Object.values(this.places);
      if (!places.length || !height) return;
      const [left, right] = extent(places.map((place) => place.x));
      const [top, bottom] = extent(places.map((place) => place.y));
      const across = (width - 2 * MARGIN.x) / (right - left || 1);
      const down = (height - 2 * MARGIN.y) / (bottom - top || 1);
      const scale = Math.min(across, down, LARGEST);
      const middle = { x: (left + right) / 2, y: (top + bottom) / 2 };
      this.view = { x: width / 2 - middle.x * scale, y: height / 2 - middle.y * scale, scale };
    },
    zoom(times, x = this.$el.clientWidth / 2, y = this.$el.clientHeight / 2) {
      this.view = {
        x: x - (x - this.view.x) * times,
        y: y - (y - this.view.y) * times,
        scale: this.view.scale * times,
      };
    },
    wheel(event) {
      if (!event.ctrlKey) return; // the page scrolls; touchpads send this key for two fingers
      event.preventDefault();
      this.zoom(STEP ** (-event.deltaY / 100), event.offsetX, event.offsetY);
    },
    pan(event) {
      if (!this.grip) return;
      const { x, y, scale } = this.view;
      const moved = { x: event.clientX - this.grip.clientX, y: event.clientY - this.grip.clientY };
      this.view = { x: x + moved.x, y: y + moved.y, scale };
      this.grip = event;
    },
  },
};

function extent(numbers) {
  return [Math.min(...numbers), Math.max(...numbers)];
}

function overlap([left, right, top, bottom], [left2, right2, top2, bottom2]) {
  return left < right2 && left2 < right && top < bottom2 && top2 < bottom;
}

function path(from, to) {
  if (from.key === to.key) {
    const { x, y, radius } = from;
    return { path: `M${x - 3} ${y - radius}a9 9 0 1 1 6 0`, x, y: y - radius - 20 };
  }
  const [dx, dy] = [to.x - from.x, to.y - from.y];
  const share = 1 - (to.radius + 2) / (Math.hypot(dx, dy) || 1);
  const end = { x: from.x + dx * share, y: from.y + dy * share };
  return { path: `M${from.x} ${from.y}L${end.x} ${end.y}`, x: from.x + dx / 2, y: from.y + dy / 2 };
}

// The places of nodes by their keys, around 0; `known`: the places they had before.
function placed(nodes, edges, known, aspect) {
  const numbers = new Map(nodes.map((node, number) => [node.key, number]));
  const pairs = edges
    .map(({ source, target }) => [numbers.get(source), numbers.get(target)])
    .filter(([source, target]) => source !== target);
  const points = nodes.map(({ key }, number) => {
    if (key in known) return { ...known[key], isKnown: true };
    const besides = pairs.find(([source, target]) => {
      const other = source === number ? target : target === number ? source : null;
      return other !== null && nodes[other].key in known;
    });
    const centre = besides
      ? known[nodes[besides[0] === number ? besides[1] : besides[0]].key]
      : { x: 0, y: 0 };
    const angle = number * 2.4; // an angle that fills a disc evenly
    const distance = besides ? LENGTH : (LENGTH / 2) * Math.sqrt(number + 1);
    return { x: centre.x + distance * Math.cos(angle), y: centre.y + distance * Math.sin(angle) };
  });
  for (let round = 0; round < ROUNDS; round++) {
    const most = (LENGTH / 2) * (1 - round / ROUNDS);
    for (const point of points) {
      point.fx = -point.x / Math.sqrt(aspect);
      point.fy = -point.y * Math.sqrt(aspect);
    }
    for (let one = 0; one < points.length; one++) {
      for (let other = 0; other < one; other++) push(points[one], points[other]);
    }
    for (const [source, target] of pairs) pull(points[source], points[target]);
    for (const point of points) {
      const force = Math.hypot(point.fx, point.fy) || 1;
      const moved = Math.min(force, point.isKnown ? most / 5 : most) / force;
      point.x += point.fx * moved;
      point.y += point.fy * moved;
    }
  }
  return Object.fromEntries(points.map(({ x, y }, number) => [nodes[number].key, { x, y }]));
}

function push(one, other) {
  const [dx, dy] = [one.x - other.x, one.y - other.y];
  const share = LENGTH ** 2 / Math.max(dx * dx + dy * dy, 1);
  one.fx += dx * share;
  one.fy += dy * share;
  other.fx -= dx * share;
  other.fy -= dy * share;
}

function pull(one, other) {
  const [dx, dy] = [other.x - one.x, other.y - one.y];
  const share = Math.hypot(dx, dy) / LENGTH;
  one.fx += dx * share;
  one.fy += dy * share;
  other.fx -= dx * share;
  other.fy -= dy * share;
}
