import { createTheme, Modal } from "@mantine/core";

export const theme = createTheme({
  fontFamily: "system-ui, sans-serif",
  components: {
    // The scroll lock adds a <style>, which the Content-Security-Policy forbids. The header has no
    // role, because a page has one banner only.
    Modal: Modal.extend({
      defaultProps: { lockScroll: false, attributes: { header: { role: "none" } } },
    }),
  },
});
