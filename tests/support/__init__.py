"""What several tests share: made-up records, small models, and programs that run in processes of their own."""
