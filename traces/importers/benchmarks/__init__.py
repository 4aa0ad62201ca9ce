"""What do benchmarks and research code write about acceptance?"""
