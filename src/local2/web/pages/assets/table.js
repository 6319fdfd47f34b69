// A table whose rows keep their elements for as long as they are among the rows. (NiceGUI builds what
// is in a slot anew with every change of the page: a click on a row, or its focus, would be lost.)
// While a reader points at its rows or is in one of them, also in the dialog that it has opened, other
// rows have to wait, and it emits `held` with true; with false afterwards.
import { markRaw } from "vue";

export default {
  template: `
    <div class="table">
      <table>
        <thead>
          <tr><th v-for="column in columns" scope="col">{{ column }}</th></tr>
        </thead>
        <tbody ref="rows" @mousemove="isPointed = true" @mouseleave="isPointed = false">
          <component :is="cells" v-for="row in shown" :key="row.key" :row="row" />
        </tbody>
      </table>
    </div>
  `,
  props: { columns: Array, rows: Array, body: String },
  data() {
    return {
      cells: markRaw({ template: this.body, props: ["row"] }),
      shown: this.rows,
      isPointed: false,
      isFocused: false,
    };
  },
  computed: {
    isHeld() {
      return this.isPointed || this.isFocused;
    },
  },
  watch: {
    rows() {
      if (!this.isHeld) this.shown = this.rows;
    },
    isHeld(isHeld) {
      if (!isHeld) this.shown = this.rows;
      this.$emit("held", isHeld);
    },
  },
  mounted() {
    document.addEventListener("focusin", this.look);
    document.addEventListener("pointerdown", this.look);
  },
  unmounted() {
    document.removeEventListener("focusin", this.look);
    document.removeEventListener("pointerdown", this.look);
  },
  methods: {
    look(event) {
      const isInDialog = event.target.closest("[role=dialog]") !== null;
      if (!isInDialog) this.isFocused = this.$refs.rows.contains(event.target);
    },
  },
};
