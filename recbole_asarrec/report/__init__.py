"""From finished runs to tables, figures and one page: records → study → tables, figures → page."""
