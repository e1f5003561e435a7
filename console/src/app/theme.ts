import { createTheme, Modal } from "@mantine/core";

export const theme = createTheme({
  fontFamily: "system-ui, sans-serif",
  components: {
    // Locking the page's scroll would add a <style>, which our policy refuses. A dialog's head is no second banner of the page.
    Modal: Modal.extend({
      defaultProps: { lockScroll: false, attributes: { header: { role: "none" } } },
    }),
  },
});
