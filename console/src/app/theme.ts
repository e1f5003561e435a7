import { Modal, createTheme } from "@mantine/core";

export const theme = createTheme({
  fontFamily: "system-ui, sans-serif",
  components: {
    // Locking the page's scroll would add a <style>, which our policy refuses.
    Modal: Modal.extend({ defaultProps: { lockScroll: false } }),
  },
});
