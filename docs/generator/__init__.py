"""Makes the pages of the site: placeholders become numbers, tables and pictures of the runs."""
